"""One process runs a study, wherever its storage is reached from."""

import functools
import os
import socket
import time
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import optuna
import psutil
import pytest
from optuna.exceptions import UpdateFinishedTrialError
from optuna.samplers import RandomSampler

from tests.tuner.studies import ControllerDied, FakeExecutor, Script, journal, run_study
from tests.tuner.sweeper.test_sweep_study import SameFolder, definition
from tuner.errors import UserError
from tuner.study import StudyListener, StudyStore
from tuner.study.run_registry import Run
from tuner.study.storage import store as attributes
from tuner.study.storage.ownership import OWNER, Ownership, OwnershipLostError
from tuner.study.storage.trial_records import ENDING_ATTRIBUTE, OUTCOME_ATTRIBUTE, packed_curve
from tuner.study.sweep.sweep_study import Sweep, SweepListener, SweepRunner, SweepSampler
from tuner.trial.outcomes import Outcome
from tuner.trial.system import start_time


def mark(folder: Path, **changes: Any) -> None:
    """Says in the storage that somebody else runs the study."""
    parent = psutil.Process().ppid()
    said = {"host": socket.gethostname(), "pid": parent, "started": start_time(parent), "at": time.time()}
    with StudyStore(journal(folder)) as store:
        study = store.find("study")
        assert study is not None
        study.set_user_attr(OWNER, {**said, "folder": str(folder / "studies" / "study"), **changes})


def owner(folder: Path) -> Any:
    with StudyStore(journal(folder)) as store:
        study = store.find("study")
        assert study is not None
        return study.user_attrs[OWNER]


def test_a_study_that_a_living_process_runs_is_refused(tmp_path: Path) -> None:
    run_study(tmp_path)
    assert owner(tmp_path)["pid"] is None
    mark(tmp_path)
    with pytest.raises(UserError, match=f"is being run by process {os.getppid()} in .*use another study.name"):
        run_study(tmp_path)
    mark(tmp_path, started="another boot:1")  # the number has been given to somebody else since
    run_study(tmp_path)


@dataclass
class Clock:
    """Stands for `time` in the module of ownership: nobody waits.

    Attributes:
        slept: Seconds.
        meanwhile: Called after each of them.
    """

    slept: float = 0.0
    meanwhile: Callable[[float], object] = lambda slept: None
    CLOCK_BOOTTIME = time.CLOCK_BOOTTIME

    def time(self) -> float:
        return time.time()

    def clock_gettime(self, clock: int) -> float:
        return 1000.0 + self.slept

    def sleep(self, seconds: float) -> None:
        self.slept += seconds
        self.meanwhile(self.slept)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr("tuner.study.storage.ownership.time", clock)
    return clock


def test_on_another_machine_one_that_gave_a_sign_lately_counts_as_living(tmp_path: Path, clock: Clock) -> None:
    run_study(tmp_path)
    mark(tmp_path, host="elsewhere", at=time.time() - 20.0)
    with pytest.raises(UserError, match=r"by process .* on elsewhere; wait for it, stop it"):
        run_study(tmp_path)
    assert clock.slept == 0


@pytest.mark.parametrize("ago", [180.0, -180.0])
def test_whatever_the_clocks_say_one_whose_mark_changes_is_living(tmp_path: Path, clock: Clock, ago: float) -> None:
    def sign(slept: float) -> None:
        if slept == 25.0:
            mark(tmp_path, host="elsewhere", at=time.time() - ago + slept)

    run_study(tmp_path)
    mark(tmp_path, host="elsewhere", at=time.time() - ago)
    clock.meanwhile = sign
    with pytest.raises(UserError, match=r"by process .* on elsewhere; wait for it, stop it"):
        run_study(tmp_path)
    assert clock.slept == 25.0
    assert owner(tmp_path)["host"] == "elsewhere"


@pytest.mark.parametrize(("ago", "waited"), [(600.0, 120.0), (-600.0, 120.0), (100_000.0, 0.0)])
def test_one_whose_mark_stays_as_it_is_is_dead(tmp_path: Path, clock: Clock, ago: float, waited: float) -> None:
    run_study(tmp_path)
    mark(tmp_path, host="elsewhere", at=time.time() - ago)
    run_study(tmp_path)
    assert clock.slept == waited
    assert owner(tmp_path)["pid"] is None


class TakenOver(StudyListener):
    """A process on another machine takes the study over while its first run is under way.

    Args:
        happens: What that process does beside.
    """

    def __init__(self, folder: Path, happens: Callable[[optuna.Study], object] = lambda study: None) -> None:
        self._folder, self._happens = folder, happens

    def on_start(self, run: Run) -> None:
        mark(self._folder, host="elsewhere")
        with StudyStore(journal(self._folder)) as store:
            study = store.find("study")
            assert study is not None
            self._happens(study)


def test_one_that_was_taken_over_ends_in_a_line_and_writes_nothing_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tuner.study.storage.ownership.HEARTBEAT_INTERVAL_S", 0.0)
    seconds: list[float | None] = []
    taken_over = TakenOver(tmp_path, lambda study: seconds.append(study.user_attrs.get(attributes.SECONDS)))
    with pytest.raises(OwnershipLostError, match=r"^study study was taken over by process \d+ on elsewhere, as"):
        run_study(tmp_path, listener=taken_over)
    assert owner(tmp_path)["host"] == "elsewhere"
    assert owner(tmp_path)["pid"] is not None
    with StudyStore(journal(tmp_path)) as store:
        study = store.find("study")
        assert study is not None
        assert [trial.state.name for trial in study.trials] == ["RUNNING"]
        assert study.user_attrs.get(attributes.SECONDS) == seconds[0]


def test_of_two_that_renew_their_marks_at_once_one_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tuner.study.storage.ownership.HEARTBEAT_INTERVAL_S", 0.0)
    run_study(tmp_path)
    with StudyStore(journal(tmp_path)) as store, StudyStore(journal(tmp_path)) as other:
        home = tmp_path / "studies" / "study"
        first, second = (Ownership(one.require("study"), home, one.file) for one in (store, other))
        second._mark["host"] = "elsewhere"
        write = first._write

        def late() -> None:
            second._write()  # takes the study over behind the look of the first one
            write()

        with first.lease():
            monkeypatch.setattr(first, "_write", late)
            first.heartbeat()
            monkeypatch.setattr(first, "_write", write)
            with pytest.raises(OwnershipLostError, match="was taken over by process"):
                second.heartbeat()
            assert first.heartbeat()
            assert owner(tmp_path)["host"] == socket.gethostname()


def finish(study: optuna.Study) -> None:
    """Closes a run as another controller does."""
    trial = optuna.trial.Trial(study, study.get_trials(deepcopy=False)[0]._trial_id)
    trial.set_user_attr(OUTCOME_ATTRIBUTE, Outcome.COMPLETE.value)
    trial.set_user_attr(ENDING_ATTRIBUTE, {"reason": "", "seconds": 1.0, "curve": packed_curve([(1.0, 1.0)])})
    study.tell(trial, 1.0)


def test_a_run_that_another_process_has_finished_is_no_traceback(tmp_path: Path) -> None:
    with pytest.raises(OwnershipLostError, match="taken over by process"):  # before it was time for a sign
        run_study(tmp_path, listener=TakenOver(tmp_path, finish))
    assert owner(tmp_path)["host"] == "elsewhere"


def test_a_finished_run_of_a_study_of_our_own_stays_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.tuner.study.test_ownership.mark", lambda folder, host: None)
    with pytest.raises(UpdateFinishedTrialError):
        run_study(tmp_path, listener=TakenOver(tmp_path, finish))


def test_a_study_is_gone_on_with_where_its_runs_lie(tmp_path: Path) -> None:
    run_study(tmp_path)
    other = tmp_path / "elsewhere"
    with pytest.raises(UserError, match=f"lie in .*go on with study.folder={tmp_path / 'studies'}"):
        run_study(other, url=journal(tmp_path))
    (tmp_path / "studies").rename(tmp_path / "moved")  # then nothing is there to go on with
    run_study(other, url=journal(tmp_path))


def test_it_signs_while_it_runs_and_leaves_the_study_free_if_it_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tuner.study.storage.ownership.HEARTBEAT_INTERVAL_S", 0.0)
    seen: list[Any] = []

    class Stop(Exception):  # noqa: N818
        pass

    def fail(text: str = "", *_: Any) -> None:
        seen.append(owner(tmp_path))
        if len(seen) == 3:
            raise Stop

    listener = StudyListener()
    monkeypatch.setattr(listener, "on_end", fail)
    with pytest.raises(Stop):
        run_study(tmp_path, listener=listener)
    assert {one["pid"] for one in seen} == {os.getpid()}
    assert seen[0]["at"] < seen[1]["at"] < seen[2]["at"]
    assert owner(tmp_path)["pid"] is None


def test_a_sweep_signs_while_it_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tuner.study.storage.ownership.HEARTBEAT_INTERVAL_S", 0.0)
    seen: list[float] = []

    class Watched(FakeExecutor):
        def wait(self, timeout_s: float | None = None) -> list[Any]:
            study = store.find("s")
            assert study is not None
            seen.append(study.user_attrs[OWNER]["at"])
            if len(seen) == 3:
                raise ControllerDied
            return super().wait(timeout_s)

    @contextmanager
    def made() -> Any:
        yield Watched(behave=lambda spec, attempt: Script([(1.0, 0.5)]))

    sweep = Sweep(definition(), ("minimize",), SameFolder("job"), SweepSampler(functools.partial(RandomSampler)))
    with StudyStore("memory") as store, pytest.raises(ControllerDied):
        SweepRunner(sweep, store, made, SweepListener()).run(tmp_path)
    assert seen[0] < seen[1] < seen[2]
