"""Which process a run is among those that train together, and runs of several processes."""

import json
import math
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

from note_rl.errors import PeerError, SettingsError
from note_rl.settings import Distributed
from note_rl.training.checkpoint import read_checkpoint
from tests.tuner.command_line import SMALL, SMALL_AGENTS, CommandLine, files_read_once, tuner
from tests.tuner.runs.test_stops import Stopping, attempt, config_of
from tuner.commands.preflight import preflight
from tuner.errors import UserError
from tuner.runs.run_strategy import _free_addresses as free_addresses
from tuner.runs.run_strategy import _wait_until_ready as wait_until_ready
from tuner.runs.run_strategy import role_of, together
from tuner.trial.folder import CHECKPOINT_FILE
from tuner.trial.messages import Outcome, TrialInterrupted

__all__ = ["files_read_once", "tuner"]

HOSTS = ["a:1", "b:2", "c:3"]
TORCHRUN = {"RANK": "3", "WORLD_SIZE": "4", "MASTER_ADDR": "m", "MASTER_PORT": "7"}


@pytest.mark.parametrize(
    ("strategy", "rank", "expected"),
    [
        ("ddp", 0, (True, "rank 0 of 3", {}, "", 0)),
        ("ddp", 2, (False, "rank 2 of 3", {}, "", 0)),
        ("multi_worker", 0, (True, "worker 0", {"worker": HOSTS}, "worker", 0)),
        ("multi_worker", 1, (False, "worker 1", {"worker": HOSTS}, "worker", 1)),
        ("parameter_server", 0, (True, "chief 0", {"chief": ["a:1"], "ps": ["b:2"], "worker": ["c:3"]}, "chief", 0)),
        ("parameter_server", 1, (False, "ps 0", {"chief": ["a:1"], "ps": ["b:2"], "worker": ["c:3"]}, "ps", 0)),
        ("parameter_server", 2, (False, "worker 0", {"chief": ["a:1"], "ps": ["b:2"], "worker": ["c:3"]}, "worker", 0)),
    ],
)
def test_the_place_that_hosts_give_a_rank(strategy: Any, rank: int, expected: tuple[Any, ...]) -> None:
    role = role_of(Distributed(strategy=strategy, hosts=HOSTS, rank=rank))
    assert role is not None
    assert (role.leads, role.name, role.cluster, role.kind, role.index) == expected


def test_without_hosts_others_are_started_here() -> None:
    for strategy in ("ddp", "mirrored", "multi_worker", "parameter_server"):
        assert role_of(Distributed(strategy=strategy)) is None
    assert role_of(None) is None


def test_what_torchrun_and_tf_config_say_wins(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in TORCHRUN.items():
        monkeypatch.setenv(name, value)
    role = role_of(Distributed(hosts=HOSTS, rank=0))
    assert role is not None
    assert (role.leads, role.name) == (False, "rank 3 of 4")
    cluster = {"worker": ["x:1", "y:2"]}
    monkeypatch.setenv("TF_CONFIG", json.dumps({"cluster": cluster, "task": {"type": "worker", "index": 1}}))
    role = role_of(Distributed(strategy="multi_worker", hosts=HOSTS, rank=0))
    assert role is not None
    assert (role.name, role.cluster) == ("worker 1", cluster)
    with pytest.raises(SettingsError, match="TF_CONFIG names processes of the kinds worker: they must be chief, ps"):
        role_of(Distributed(strategy="parameter_server"))


@pytest.mark.parametrize(
    "tf_config", ["{}", "no JSON", '{"cluster": {"worker": ["a:1"]}, "task": {"type": "worker", "index": 1}}', "[1]"]
)
def test_a_tf_config_that_is_none_is_refused(monkeypatch: pytest.MonkeyPatch, tf_config: str) -> None:
    monkeypatch.setenv("TF_CONFIG", tf_config)
    with pytest.raises(SettingsError, match="must say which process of a cluster this is, such as"):
        role_of(Distributed(strategy="multi_worker"))


def test_a_cluster_of_one_worker_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    told = {"cluster": {"worker": ["x:1"]}, "task": {"type": "worker", "index": 0}}
    monkeypatch.setenv("TF_CONFIG", json.dumps(told))
    with pytest.raises(SettingsError, match="TF_CONFIG names one process, x:1, and strategy=multi_worker needs two or"):
        role_of(Distributed(strategy="multi_worker"))


@pytest.mark.parametrize(("rank", "size"), [("x", "2"), ("2", "2"), ("-1", "2")])
def test_what_torchrun_never_says_is_refused(
    tuner: CommandLine, monkeypatch: pytest.MonkeyPatch, rank: str, size: str
) -> None:
    for name, value in zip(TORCHRUN, (rank, size, "h", "99"), strict=True):
        monkeypatch.setenv(name, value)
    said = tuner.refused("train", "agent=dqn", "strategy=ddp")
    assert f"RANK={rank} and WORLD_SIZE={size}, which torchrun sets, must say which of how many processes" in said


def test_batches_are_divided_by_those_that_torchrun_has_started(
    tuner: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in zip(TORCHRUN, ("1", "3", "h", "99"), strict=True):
        monkeypatch.setenv(name, value)
    typed = ("agent=dqn", "strategy=ddp", "strategy.replicas=2")
    assert "minibatches of 128 cannot be dealt out to 3 replicas" in tuner.refused("train", *typed)
    preflight("train", [*typed, "buffer.batch_size=63"])


def test_processes_that_are_started_here_do_not_share_gpus() -> None:
    config = config_of("dqn", "keras", "strategy=multi_worker", "backend.device=cuda")
    with pytest.raises(SettingsError, match="strategy=multi_worker starts its processes on CPUs"), together(config):
        pass


def test_torch_gets_hosts_as_from_torchrun_and_only_while_it_trains() -> None:
    def torchrun_variables() -> dict[str, str]:
        return {name: os.environ[name] for name in TORCHRUN if name in os.environ}

    config = config_of("dqn", "torch", "strategy=ddp", "strategy.hosts=[h:99,i:1]", "strategy.rank=1")
    assert torchrun_variables() == {}
    with together(config) as sharing:
        assert torchrun_variables() == {"RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "h", "MASTER_PORT": "99"}
        assert sharing.arguments == {"strategy": "ddp", "replicas": None}
    assert torchrun_variables() == {}
    with together(config_of("dqn", "torch", "strategy=ddp", "strategy.replicas=4")) as sharing:
        assert sharing.arguments == {"strategy": "ddp", "replicas": 4}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ("strategy.hosts=[a:1,b:2]",),
            "strategy.rank=null is not possible: it must say which of hosts this process is, 0 to 1",
        ),
        (
            ("strategy.hosts=[a:1,b:2]", "strategy.rank=2"),
            "strategy.rank=2 is not possible: it must say which of hosts this process is",
        ),
        (
            ("strategy.hosts=[a:1,b]", "strategy.rank=0"),
            "is not possible: it must list HOST:PORT of each process, two or more and no two alike",
        ),
        (
            ("strategy.hosts=[a:1]", "strategy.rank=0"),
            "is not possible: it must list HOST:PORT of each process, two or more and no two alike",
        ),
        (
            ("strategy.hosts=[a:1,b:65536]", "strategy.rank=0"),
            "two or more and no two alike, with ports from 1 to 65535",
        ),
        (("strategy.hosts=[a:0,b:1]", "strategy.rank=0"), "two or more and no two alike, with ports from 1 to 65535"),
        (("strategy.rank=1",), "strategy.rank=1 says which of hosts this process is: give strategy.hosts, too"),
    ],
)
def test_hosts_that_make_no_sense_are_refused(tuner: CommandLine, arguments: tuple[str, ...], message: str) -> None:
    assert message in tuner.refused("train", "agent=dqn", "strategy=ddp", *arguments)


def test_too_few_hosts_for_parameter_servers_and_a_study_over_hosts_are_refused(tuner: CommandLine) -> None:
    served = ("agent=dqn", "backend=keras", "strategy=parameter_server", "strategy.rank=0")
    assert "2 are too few for one that leads, strategy.parameter_servers=1" in tuner.refused(
        "train", *served, "strategy.hosts=[a:1,b:2]"
    )
    said = tuner.refused("tune", "agent=dqn", "strategy=ddp", "strategy.hosts=[a:1,b:2]", "strategy.rank=0")
    assert "strategy.hosts names processes that are started by hand, and those of a trial are started on its" in said
    said = tuner.refused("tune", *served[:2], "strategy=multi_worker", "executor=inline")
    assert "strategy=multi_worker is settled before TensorFlow does anything, and with executor=inline all" in said
    assert "adaptive: decisions go by" in tuner.refused("train", *served[:3], "agent=prioritized_dqn", "adaptive=ess")


def test_who_follows_keeps_no_run(tmp_path: Path) -> None:
    config = config_of("dqn", "torch", "strategy=ddp", "strategy.hosts=[h:99,i:1]", "strategy.rank=1")
    with pytest.raises(UserError, match="rank 1 of 2 keeps no run: start it with the settings of the run"):
        attempt(config, tmp_path, Stopping(), math.inf)


@pytest.mark.slow
def test_two_processes_that_are_started_by_hand_train_as_one(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
    common = (*SMALL, *SMALL_AGENTS["dqn"], "training.max_grad_norm=0.05", "strategy=ddp")
    hosts = (f"strategy.hosts=[{address},127.0.0.1:1]", f"hydra.run.dir={tmp_path}/run")
    program = "import sys; from tuner.cli import main; sys.exit(main())"
    command = [sys.executable, "-c", program, "train", *common, *hosts, "strategy.rank=1"]
    second = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    together_run, alone = Stopping(), Stopping()
    of_both = config_of("dqn", "torch", *common[-2:], hosts[0], "strategy.rank=0")
    assert attempt(of_both, tmp_path / "first", together_run, math.inf)
    said = second.communicate(timeout=60)[0]
    assert second.returncode == 0
    assert "rank 1 of 2 trains along with the process that leads" in said
    assert not (tmp_path / "run").exists()
    assert attempt(config_of("dqn", "torch", common[-2]), tmp_path / "alone", alone, math.inf)
    assert together_run.reported == alone.reported
    check_equal(tmp_path / "first", tmp_path / "alone")


def check_equal(one: Path, other: Path) -> None:
    """The parameters and slots of two runs."""
    arrays, expected = (read_checkpoint(folder / CHECKPOINT_FILE)[0] for folder in (one, other))
    names = [name for name in expected if name.startswith(("learner/agent", "learner/optimizer"))]
    assert names
    for name in names:
        np.testing.assert_allclose(arrays[name], expected[name], rtol=0, atol=1e-5)


OF_THEIR_OWN = """
import sys
from pathlib import Path
from tests.tuner.runs.test_stops import Stopping, attempt, config_of
import psutil

folder, *words = sys.argv[1:]
assert attempt(config_of("dqn", "keras", *words), Path(folder), Stopping(), float("inf"))
assert not psutil.Process().children(recursive=True)
"""


@pytest.mark.slow
@pytest.mark.parametrize("strategy", ["multi_worker", "parameter_server"])
def test_processes_of_tensorflow_that_a_run_starts_come_to_the_numbers_of_one(tmp_path: Path, strategy: str) -> None:
    common = ("training.jit_compile=false", "training.max_grad_norm=0.05", "buffer.gradient_steps=1")
    assert attempt(config_of("dqn", "keras", *common), tmp_path / "alone", Stopping(), math.inf)
    # a process of its own: TensorFlow makes such a strategy before it does anything else
    command = [sys.executable, "-c", OF_THEIR_OWN, tmp_path / "shared", *common, f"strategy={strategy}"]
    subprocess.run(list(map(str, command)), check=True, timeout=300)
    check_equal(tmp_path / "shared", tmp_path / "alone")


@pytest.mark.slow
@pytest.mark.parametrize("strategy", ["multi_worker", "parameter_server"])
def test_nothing_is_left_of_a_run_that_is_killed(tmp_path: Path, strategy: str) -> None:
    endless = ("agent=dqn", "backend=keras", *SMALL, "training.total_steps=10000000", f"hydra.run.dir={tmp_path}/run")
    program = "import sys; from tuner.cli import main; sys.exit(main())"
    command = [sys.executable, "-c", program, "train", *endless, f"strategy={strategy}"]
    run = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    metrics = tmp_path / "run" / "metrics.jsonl"
    while not (metrics.exists() and metrics.read_text()):
        assert run.poll() is None
        time.sleep(0.2)
    others = psutil.Process(run.pid).children(recursive=True)
    assert len(others) >= 1
    assert {os.getpgid(other.pid) for other in others} == {os.getpgid(run.pid)}  # which a trial is killed with
    run.kill()
    run.wait()
    assert not psutil.wait_procs(others, timeout=30)[1]


HEEDS_SIGTERM = """
import os, signal, socket, sys
from note_rl.distributed.keras.strategies import clustered

heard = []
signal.signal(signal.SIGTERM, lambda number, frame: heard.append(number))
with socket.create_server(("127.0.0.1", 0)) as server:
    address = f"127.0.0.1:{server.getsockname()[1]}"
strategy = clustered({"worker": [address]}, "worker", 0, with_gpus=False)
os.kill(os.getpid(), signal.SIGTERM)
assert heard == [signal.SIGTERM]
"""


@pytest.mark.slow
def test_sigterm_ends_a_run_that_has_joined_a_cluster_of_tensorflow() -> None:
    # which catches it where it joins, in a process that it has done nothing in yet
    subprocess.run([sys.executable, "-c", HEEDS_SIGTERM], check=True, timeout=120)


@pytest.mark.slow
def test_devices_of_one_process_are_shared_from_the_command_line(tmp_path: Path) -> None:
    words = ("agent=dqn", "backend=keras", *SMALL, "strategy=mirrored", f"hydra.run.dir={tmp_path}/run")
    command = [sys.executable, "-c", "import sys; from tuner.cli import main; sys.exit(main())", "train", *words]
    subprocess.run(command, check=True, timeout=120, env={**os.environ, "CUDA_VISIBLE_DEVICES": "-1"})
    assert json.loads((tmp_path / "run" / "result.json").read_text())


@pytest.mark.parametrize("strategy", ["multi_worker", "parameter_server"])
def test_a_process_that_does_not_get_far_is_named(monkeypatch: pytest.MonkeyPatch, strategy: str) -> None:
    monkeypatch.setattr("tuner.runs.run_strategy._COMPANION", "raise SystemExit(3)")
    with (
        pytest.raises(PeerError, match="rank 1 has ended with exit code 3 before training began"),
        together(config_of("dqn", "keras", f"strategy={strategy}")),
    ):
        pass


def test_ports_that_others_have_are_not_taken() -> None:
    first = free_addresses(3)
    with socket.create_server(("127.0.0.1", int(first[1].partition(":")[2]))):
        others = free_addresses(3)
    assert first[1] not in others
    assert len({*first, *others}) < 6  # it looks in the same place


def test_who_hangs_before_training_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tuner.runs.run_strategy._LONGEST_START_S", 0.2)
    with subprocess.Popen(["sleep", "60"], stdout=subprocess.PIPE, text=True) as hanging:
        with pytest.raises(PeerError, match=r"rank 1 has not begun within 0\.2 s"):
            wait_until_ready([hanging])
        assert hanging.wait(10) == -signal.SIGKILL


def test_a_run_that_is_to_end_does_not_wait_for_the_start_of_others() -> None:
    def asked_to_end() -> None:
        raise TrialInterrupted(Outcome.STOPPED, "interrupted")

    starting = [subprocess.Popen(["sleep", "60"], stdout=subprocess.PIPE, text=True) for _ in range(2)]
    with starting[0], starting[1]:
        with pytest.raises(TrialInterrupted, match="interrupted"):
            wait_until_ready(starting, asked_to_end)
        assert [one.wait(10) for one in starting] == [-signal.SIGKILL] * 2


@pytest.mark.slow
@pytest.mark.parametrize("strategy", ["multi_worker", "parameter_server"])
def test_sigterm_in_the_start_ends_a_run_before_its_first_step(tmp_path: Path, strategy: str) -> None:
    endless = ("agent=dqn", "backend=keras", *SMALL, "training.total_steps=10000000", f"hydra.run.dir={tmp_path}/run")
    program = "import sys; from tuner.cli import main; sys.exit(main())"
    command = [sys.executable, "-c", program, "train", *endless, f"strategy={strategy}"]
    run = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    while not (others := psutil.Process(run.pid).children(recursive=True)):
        assert run.poll() is None
        time.sleep(0.05)
    run.terminate()
    assert "continue with: tuner train resume=" in run.communicate(timeout=120)[1]
    assert not psutil.wait_procs(others, timeout=30)[1]
    assert json.loads((tmp_path / "run" / "result.json").read_text())["outcome"] == "stopped"
    assert not (tmp_path / "run" / "metrics.jsonl").exists()
