import gc
import json
import os
import time
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import psutil
import pytest

from tuner.executors.base import Event, TrialEnded, TrialReported
from tuner.executors.local import LocalExecutor
from tuner.trial import TrialResult, TrialSpec, system
from tuner.trial.forkclient import ForkServer

collect_ignore = [] if find_spec("submitit") else ["test_submitit.py"]  # an extra that few need

PATIENCE_S = 120.0


def wait_until(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, f"waited in vain until {what}"
        time.sleep(0.01)


class Driver:
    """Runs trials of `trial_entries` to their end."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.events: list[Event] = []

    def spec(self, entry: str, number: int = 0, **config: object) -> TrialSpec:
        return TrialSpec("study", "screen", number, 11 + number, config, entry=f"trial_entries:{entry}")

    def start(self, executor: LocalExecutor, entry: str, number: int = 0, **config: object) -> Path:
        folder = self.folder / str(number)
        executor.start(self.spec(entry, number, **config), folder)
        return folder

    def until(self, executor: LocalExecutor, kind: type[Event]) -> Any:
        """Wait for the first event of a kind and return it; reports before it are left open."""
        while True:
            events = executor.wait(PATIENCE_S)
            assert events, f"nothing happened while waiting for {kind.__name__}"
            self.events += events
            for event in events:
                if isinstance(event, kind):
                    return event

    def finish(self, executor: LocalExecutor, verdict: str = "continue") -> dict[str, TrialResult]:
        """Answer reports (not with verdict "") until all trials have ended; return their results by key."""
        results = {}
        while executor.free_slots < executor.parallel:
            events = executor.wait(PATIENCE_S)
            assert events, "nothing happened"
            results.update(self.attend(executor, events, verdict))
        return results

    def attend(self, executor: LocalExecutor, events: list[Event], verdict: str = "continue") -> dict[str, TrialResult]:
        """Answer the reports among some events (not with verdict ""); return the results among them by key."""
        self.events += events
        for event in events:
            if isinstance(event, TrialReported) and verdict:
                executor.answer(event.key, verdict)  # type: ignore[arg-type]
        return {event.key: event.result for event in events if isinstance(event, TrialEnded)}

    def run(
        self, executor: LocalExecutor, entry: str, verdict: str = "continue", number: int = 0, **config: object
    ) -> TrialResult:
        self.start(executor, entry, number, **config)
        return self.finish(executor, verdict)[f"screen/{number}"]

    def note(self, number: int = 0) -> dict[str, Any]:
        return json.loads((self.folder / str(number) / "note.json").read_text())


@pytest.fixture
def driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Driver:
    monkeypatch.syspath_prepend(str(Path(__file__).parent))
    return Driver(tmp_path / "trials")


@pytest.fixture
def executor() -> Iterator[LocalExecutor]:
    with LocalExecutor(parallel=2) as executor:
        yield executor


@pytest.fixture(scope="module")
def shared_executor() -> Iterator[LocalExecutor]:
    """For tests that leave it as it was: starting a fork server takes longer than most trials."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(Path(__file__).parent))  # the server gets the path of modules when it starts
        with LocalExecutor(parallel=2) as executor:
            assert isinstance(executor._launcher, ForkServer)
            executor._launcher.start()  # which the first trial would do, and leave descriptors behind
            yield executor


@pytest.fixture(autouse=True)
def _nothing_left_behind() -> Iterator[None]:
    descriptors = set(os.listdir("/proc/self/fd"))
    children = set(psutil.Process().children(recursive=True))  # a test of another file may have left a helper process
    yield
    if not set(os.listdir("/proc/self/fd")) <= descriptors:
        gc.collect()  # what waits for the garbage collector is no leak
    assert set(os.listdir("/proc/self/fd")) <= descriptors
    assert set(psutil.Process().children(recursive=True)) <= children


@pytest.fixture
def wait_for_death() -> Callable[[int], None]:
    return lambda pid: wait_until(lambda: system.start_time(pid) is None, f"process {pid} is dead")


@pytest.fixture
def wait_for_file() -> Callable[[Path], None]:
    return lambda path: wait_until(path.exists, f"{path} exists")
