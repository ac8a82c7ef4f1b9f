"""Programs that XLA has compiled are kept from one process to the next."""

import os
import subprocess
import sys

import pytest

from note_rl.support import xla_cache
from note_rl.support.xla_cache import clear_xla_cache, xla_variables

pytest.importorskip("tensorflow")


def folder_of(variables):
    flag = next(flag for flag in variables["TF_XLA_FLAGS"].split() if "cache_directory" in flag)
    return xla_cache.Path(flag.partition("=")[2])


@pytest.mark.parametrize("name", ["NOTE_RL_XLA_CACHE", "XDG_CACHE_HOME"])
def test_they_are_kept_in_a_folder_of_the_users_own(tmp_path, name):
    folder = folder_of(xla_variables({name: str(tmp_path / "caches")}))
    assert folder.is_dir()
    assert folder.is_relative_to(tmp_path / "caches")
    assert not folder.stat().st_mode & 0o022


def test_flags_of_the_users_own_stay_and_a_cache_of_the_users_own_is_used(tmp_path):
    here = {"NOTE_RL_XLA_CACHE": str(tmp_path)}
    assert xla_variables({**here, "TF_XLA_FLAGS": "--tf_xla_auto_jit=2"})["TF_XLA_FLAGS"].startswith(
        "--tf_xla_auto_jit=2 --tf_xla_persistent_cache_directory="
    )
    assert xla_variables({**here, "TF_XLA_FLAGS": "--tf_xla_persistent_cache_directory=/elsewhere"}) == {}
    assert xla_variables({**here, "TF_XLA_FLAGS": "/a/file/of/flags"}) == {}


@pytest.mark.parametrize("variable", ["XLA_FLAGS", "TF_XLA_FLAGS"])
def test_what_was_compiled_with_other_flags_is_not_run(tmp_path, variable):
    def folder(flags):
        return folder_of(xla_variables({"NOTE_RL_XLA_CACHE": str(tmp_path), variable: flags}))

    assert folder("--xla_cpu_enable_fast_math=true") == folder("--xla_cpu_enable_fast_math=true")
    assert len({folder(""), folder("--xla_cpu_enable_fast_math=true"), folder("--xla_cpu_enable_fast_math=false")}) == 3


def test_nothing_is_kept_where_others_could_write_what_is_run(tmp_path):
    folder = folder_of(xla_variables({"NOTE_RL_XLA_CACHE": str(tmp_path)}))
    folder.chmod(0o777)
    assert xla_variables({"NOTE_RL_XLA_CACHE": str(tmp_path)}) == {}


@pytest.mark.parametrize("place", ["off", "relative", "a file", "two words"])
def test_nothing_is_kept_where_there_is_no_place(tmp_path, place):
    (tmp_path / "file").touch()
    where = {"a file": str(tmp_path / "file"), "two words": str(tmp_path / "two words")}.get(place, place)
    assert xla_variables({"NOTE_RL_XLA_CACHE": where}) == {}


def test_the_oldest_go_when_there_are_too_many(tmp_path, monkeypatch):
    monkeypatch.setattr(xla_cache, "_LARGEST", 25)
    folder = folder_of(xla_variables({"NOTE_RL_XLA_CACHE": str(tmp_path)}))
    for age, name in enumerate(["note_rl__new.pb", "note_rl__older.pb", "note_rl__killed.pb.tmp", "another__file.pb"]):
        (folder / name).write_bytes(b"0123456789")
        os.utime(folder / name, (1000 - age, 1000 - age))
    xla_variables({"NOTE_RL_XLA_CACHE": str(tmp_path)})
    assert sorted(path.name for path in folder.iterdir()) == [
        "another__file.pb",
        "note_rl__new.pb",
        "note_rl__older.pb",
    ]


def test_what_is_spoilt_is_given_up_once(tmp_path, monkeypatch):
    monkeypatch.setattr(xla_cache, "_cleared", False)
    monkeypatch.delenv("TF_XLA_FLAGS", raising=False)  # it comes back as it was
    assert not clear_xla_cache()  # none is in use
    for name, value in xla_variables({"NOTE_RL_XLA_CACHE": str(tmp_path)}).items():
        monkeypatch.setenv(name, value)
    program = folder_of(os.environ) / "note_rl__1.pb"
    program.touch()
    assert clear_xla_cache()
    assert not program.exists()
    program.touch()
    assert not clear_xla_cache()
    assert program.exists()
    monkeypatch.setattr(xla_cache, "_cleared", False)
    program.unlink()
    assert clear_xla_cache()  # another process has just done it: the program is to be compiled anew all the same


_RUN = """
import hashlib
import sys

from tuner.runs.quiet import quiet_import

quiet_import("tensorflow", "keras")
import keras
import tensorflow as tf

from note_rl.agents.keras import DQN
from note_rl.policy import EpsGreedyQPolicy

keras.utils.set_random_seed(7)
for _ in range(int(sys.argv[1])):  # what comes before makes names in TensorFlow
    tf.zeros(2) + 1.0
agent = DQN(hidden_size=8)
agent.set(policy=EpsGreedyQPolicy(eps=0.1), batch=8, pool_size=100, seed=3)
agent.train(optimizer=keras.optimizers.Adam(1e-3), total_steps=40, p=0)
print(hashlib.sha256(b"".join(weight.numpy().tobytes() for weight in agent.q_net.weights)).hexdigest())
"""


@pytest.mark.slow
def test_a_program_is_found_again_and_a_spoilt_one_compiled_anew(tmp_path):
    def run(num_before, cache=str(tmp_path)):
        environment = {**os.environ, "NOTE_RL_XLA_CACHE": cache, "PYTHONHASHSEED": "0"}
        environment.pop("TF_XLA_FLAGS", None)
        command = [sys.executable, "-c", _RUN, str(num_before)]
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout

    def programs():
        return set(tmp_path.rglob("*.pb"))

    alone = run(0, "off")
    assert not programs()
    counts = []
    for num_before in (0, 10, 20, 30, 40):  # some programs have two forms, of which XLA comes to either
        assert run(num_before) == alone
        counts.append(len(programs()))
    assert 0 < counts[0] <= counts[-1] <= 2 * counts[0]
    for program in programs():
        program.write_bytes(program.read_bytes()[:1000])
    assert run(0) == alone
    assert all(program.stat().st_size > 1000 for program in programs())
