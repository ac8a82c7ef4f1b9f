"""Uses of Ray itself: whether it is there, how much room it has, and its answers on a seat."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ray.exceptions import (
    ActorDiedError,
    ActorUnavailableError,
    ActorUnschedulableError,
    LocalRayletDiedError,
    ObjectLostError,
    RayTaskError,
    RuntimeEnvSetupError,
)

from tuner.errors import UserError
from tuner.executors.ray import executor as module
from tuner.executors.ray import ray_cluster as cluster_module
from tuner.executors.ray.executor import RayExecutor
from tuner.executors.remote.cluster import SeatLostError, SeatUnreachableError


def test_without_ray_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tuner.executors.ray.ray_cluster.find_spec", lambda name: None)
    with pytest.raises(UserError, match=r"pip install 'note-rl\[ray\]'"):
        RayExecutor.check()


def test_room_is_counted_by_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    machines = [{"CPU": 7.0, "GPU": 1.0}, {"CPU": 3.0}, {"CPU": 64.0, "GPU": 0.5}, {"CPU": 9.0, "GPU": 9.0}]
    nodes = [{"Alive": number < 3, "Resources": machine} for number, machine in enumerate(machines)]
    fake = SimpleNamespace(
        is_initialized=lambda: True, nodes=lambda: nodes, shutdown=lambda: pytest.fail("it was not ours")
    )
    monkeypatch.setitem(sys.modules, "ray", fake)
    monkeypatch.setattr(cluster_module, "check_installed", lambda: None)
    assert cluster_module.count_room("auto", {"CPU": 3, "GPU": 0.0}) == (2 + 1 + 21, "3 machines of the Ray cluster")
    assert cluster_module.count_room("auto", {"CPU": 3, "GPU": 0.25})[0] == 2 + 0 + 2


def test_code_cannot_be_sent_over_a_connection_that_was_there_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", SimpleNamespace(is_initialized=lambda: True))
    for one in (module, cluster_module):
        monkeypatch.setattr(one, "check_installed", lambda: None)
    with pytest.raises(UserError, match="has connected to it already"):
        RayExecutor(ship=True)


def test_where_ray_does_not_start_its_last_words_are_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    logs = tmp_path / "ray" / "session_latest" / "logs"

    def init(**_: Any) -> None:
        logs.mkdir(parents=True, exist_ok=True)
        (logs / "gcs_server.out").write_text("first\n\n[C] the port 6379 is taken\n[C] giving up\n")
        (logs / "raylet.err").write_text("")
        raise Exception("The current node timed out during startup. This could be\nanything.")

    monkeypatch.setenv("RAY_TMPDIR", str(tmp_path))
    monkeypatch.setitem(sys.modules, "ray", SimpleNamespace(is_initialized=lambda: False, init=init))
    monkeypatch.setattr(cluster_module, "check_installed", lambda: None)
    with pytest.raises(UserError) as caught:
        cluster_module._connect(None)
    assert str(caught.value).splitlines() == [
        "Ray did not start on this machine (executor.address=null): The current node timed out during startup.",
        "  [C] the port 6379 is taken",
        "  [C] giving up",
        f"More is in {logs}.",
        "Without Ray, executor=local runs trials side by side on this machine.",
    ]


def test_the_logs_of_an_earlier_start_are_not_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = tmp_path / "gcs_server.out"
    log.write_text("of yesterday\n")
    assert cluster_module._last_lines(log, log.stat().st_mtime) == ["of yesterday"]
    assert cluster_module._last_lines(log, log.stat().st_mtime + 60.0) == []


def test_nothing_but_the_choice_imports_ray() -> None:
    program = "import sys, tuner, note_rl, tuner.cli, tuner.executors.executor_factory; print('ray' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


def _refused_by_seat() -> BaseException:
    return RayTaskError("exchange", "a traceback of pages", UserError("the folder cannot be written"))


ANSWERS: dict[str, tuple[Callable[[], BaseException], type[Exception], str]] = {
    "it may come back": (lambda: ActorUnavailableError("Socket closed. More.", None), SeatUnreachableError, "Socket"),
    "it is dead": (ActorDiedError, SeatLostError, "The actor died"),
    "it died with its answer": (lambda: ObjectLostError("ab", None, "here"), SeatLostError, "Failed to retrieve"),
    "it cannot be made": (lambda: RuntimeEnvSetupError("no such file"), UserError, "no such file"),
    "nowhere is room": (lambda: ActorUnschedulableError("no GPU"), UserError, "no GPU"),
    "Ray has ended here": (LocalRayletDiedError, UserError, "the same command goes on"),
    "it refuses": (_refused_by_seat, UserError, "^the folder cannot be written$"),
}


@pytest.mark.parametrize("answer", ANSWERS)
def test_what_ray_says_of_a_seat(answer: str, monkeypatch: pytest.MonkeyPatch) -> None:
    make, kind, words = ANSWERS[answer]

    def get(asked: Any) -> None:
        raise make()

    monkeypatch.setattr("ray.get", get)
    cluster = object.__new__(cluster_module.RayCluster)
    with pytest.raises(kind, match=words) as told:
        cluster.answer("asked")
    assert type(told.value) is kind
