"""Numbers of processes and environments without room are refused before the first is there; freed memory returns."""

import ctypes
import resource
import sys
from pathlib import Path
from typing import Any

import gymnasium
import pytest

from note_rl.environments import memory_estimate as making
from note_rl.environments.environment_factory import make_environments
from note_rl.errors import SettingsError
from note_rl.settings.distributed import Distributed
from note_rl.support import memory
from tuner.executors.local import LocalExecutor


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine with 1 GB of free memory, on which this user may have 40 processes."""
    monkeypatch.setattr(memory, "free_memory", lambda: 1e9)
    monkeypatch.setattr(resource, "getrlimit", lambda kind: (40, 40))


@pytest.mark.usefixtures("small")
def test_processes_that_memory_or_the_user_has_no_room_for_are_refused() -> None:
    memory.check_processes("processes", 10, 100e6)
    with pytest.raises(
        SettingsError,
        match=r"processes=11 asks for 11 processes at a time: at least 1\.1 GB of memory, of which 1\.0 GB are free. "
        "Choose 10 at most",
    ):
        memory.check_processes("processes", 11, 100e6)
    memory.check_processes("processes", 40, 1e6)
    with pytest.raises(SettingsError, match=r"this user may have 40 processes. Choose 40 at most"):
        memory.check_processes("processes", 41, 1e6)


@pytest.mark.parametrize("version", [1, 2])
def test_free_is_what_the_control_group_of_a_job_leaves_without_files_that_are_only_cached(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: int
) -> None:
    own, job = tmp_path / "own", tmp_path / "root" / "slurm" / "job"
    job.mkdir(parents=True)
    own.write_text("0::/slurm/job/step\n" if version == 2 else "9:cpu,memory:/slurm/job/step\n2:pids:/other\n")
    names, _ = memory._GROUP_FILES[version == 2]
    for name, text in zip(names[:2], ("1000000", "700000"), strict=True):
        (job / name).write_text(text)
    (job / "memory.stat").write_text(f"anon 5\n{names[2]} 200000\nfile 7\n")
    (tmp_path / "root" / "slurm" / names[0]).write_text("max")
    monkeypatch.setattr(memory, "_OWN_GROUPS", own)
    monkeypatch.setattr(memory, "_GROUP_FILES", {version == 2: (names, tmp_path / "root"), version == 1: (names, own)})
    assert memory.free_memory() == 500_000.0
    own.unlink()
    assert memory.free_memory() > 500_000.0


@pytest.mark.usefixtures("small")
def test_it_is_asked_wherever_processes_are_started() -> None:
    for make in (
        lambda: LocalExecutor.check(parallel=5000),
        lambda: LocalExecutor.check(parallel=11, isolation="spawn"),
        lambda: Distributed(strategy="ddp", replicas=5000),
    ):
        with pytest.raises(SettingsError, match=r"(executor\.parallel|replicas)=\d+ asks for"):
            make()
    LocalExecutor.check(parallel=40)


class Light(gymnasium.Env[Any, Any]):
    """Counts how many there are."""

    num_made = 0

    def __init__(self) -> None:
        Light.num_made += 1
        self.observation_space = gymnasium.spaces.Box(0, 1, (2,))
        self.action_space = gymnasium.spaces.Discrete(2)


def test_environments_that_do_not_fit_into_memory_are_refused_by_the_first_ones(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Light, "num_made", 0)
    sizes = iter([1e9, 1.2e9])  # 100 of them take 200 MB
    monkeypatch.setattr(making, "resident_bytes", lambda: next(sizes))
    monkeypatch.setattr(making, "free_memory", lambda: 10e9)
    with pytest.raises(
        SettingsError,
        match=r"num_envs=100000 environments take about 200\.0 GB .* 10\.0 GB are free: choose 5000 at most",
    ):
        make_environments(Light, 100_000)
    assert Light.num_made == 100


@pytest.mark.parametrize(
    ("seconds", "said"), [(4.0, ["num_envs=300: to make these environments takes about 12 s"]), (3.0, [])]
)
def test_how_long_it_takes_is_said_where_it_is_long(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, seconds: float, said: list[str]
) -> None:
    clock = iter([10.0, 10.0 + seconds])  # for 100 of them
    monkeypatch.setattr(making.time, "perf_counter", lambda: next(clock))
    monkeypatch.setattr(making, "resident_bytes", lambda: 1e9)
    assert len(make_environments(Light, 300)) == 300
    assert [message.partition(",")[0] for message in caplog.messages] == said


def test_freed_memory_between_what_stays_is_returned(monkeypatch: pytest.MonkeyPatch) -> None:
    if getattr(ctypes.CDLL(None), "malloc_trim", None) is None:
        memory.release_freed()  # does nothing
        return
    pieces = [bytes(4000) for _ in range(50_000)]  # 200 MB; each piece lies in the heap of the C library
    stays = pieces[::100]
    full = memory.resident_bytes()
    del pieces
    with monkeypatch.context() as elsewhere:
        elsewhere.setattr(sys, "platform", "darwin")
        memory.release_freed()
    assert full - memory.resident_bytes() < 50e6
    memory.release_freed()
    assert full - memory.resident_bytes() > 150e6
    assert len(stays) == 500
