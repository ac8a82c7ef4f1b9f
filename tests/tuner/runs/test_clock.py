"""Seconds of training: what counts, and what counts once although it is done twice."""

import math
from collections.abc import Mapping
from pathlib import Path
from unittest import mock

import pytest

from tests.tuner.runs.reporters import Reporter, run_config
from tuner.runs.clock import TrainingClock
from tuner.runs.training import EvaluationGrid, run_training
from tuner.trial.messages import Outcome, TrialInterrupted


class Time:
    """A clock that goes on when a test moves it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 50.0
        monkeypatch.setattr("tuner.runs.clock.perf_counter", lambda: self.now)


@pytest.fixture
def time(monkeypatch: pytest.MonkeyPatch) -> Time:
    return Time(monkeypatch)


def test_only_what_lies_between_go_and_halt_counts(tmp_path: Path, time: Time) -> None:
    clock = TrainingClock(tmp_path / "clock.json")
    time.now += 5.0
    clock.go()
    time.now += 2.0
    with clock.halted():
        time.now += 30.0
        assert clock.seconds == 2.0
    time.now += 1.0
    clock.halt()
    with clock.halted():
        time.now += 7.0
    time.now += 7.0
    assert clock.seconds == 3.0


def test_a_checkpoint_that_was_never_written_leaves_the_time_of_the_one_before(tmp_path: Path, time: Time) -> None:
    path = tmp_path / "clock.json"
    clock = TrainingClock(path)
    clock.go()
    for steps in (100, 200, 300):
        time.now += 4.0
        clock.write(steps)
    for steps, seconds in ((300, 12.0), (200, 8.0)):  # killed behind the checkpoint at 300, or before it was in place
        again = TrainingClock(path)
        again.restore(steps, steps / 900)
        assert again.seconds == seconds
    again.go()
    time.now += 1.0
    again.write(250)
    third = TrainingClock(path)
    third.restore(250, 250 / 900)
    assert third.seconds == 9.0


@pytest.mark.parametrize("left", [None, "{", "[1]", '{"900": "soon"}'])
def test_a_checkpoint_without_a_time_has_that_of_the_last_report_before_it(tmp_path: Path, left: str | None) -> None:
    (tmp_path / "reports.jsonl").write_text(
        '{"step": 0.25, "value": 1.0, "seconds": 4.0}\n{"step": 0.5, "value": 1.0, "seconds": 9.0}\n'
    )
    if left is not None:
        (tmp_path / "clock.json").write_text(left)
    clock = TrainingClock(tmp_path / "clock.json")
    clock.restore(400, 400 / 900)
    assert clock.seconds == 4.0


class Timekeeper(Reporter):
    """Lets a hundred seconds pass with each evaluation, and as many with each report."""

    def __init__(self, time: Time, stop_at: float = math.inf, outcome: Outcome = Outcome.STOPPED) -> None:
        super().__init__(stop_at, outcome)
        self.time = time
        self.seconds: dict[float, float] = {}

    def report(self, step: float, value: float, seconds: float | None = None) -> None:
        assert seconds is not None
        self.seconds.setdefault(step, seconds)
        super().report(step, value, seconds)
        self.time.now += 100.0

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        super().log(step, metrics)
        if "eval/mean_return" in metrics:
            self.time.now += 100.0


def timed_run(folder: Path, reporter: Timekeeper) -> None:
    """A phase of training takes a second."""

    class Grid(EvaluationGrid):
        def on_phase_end(self, phase: int, logs: Mapping[str, float]) -> None:
            reporter.time.now += 1.0
            super().on_phase_end(phase, logs)

    folder.mkdir(exist_ok=True)
    with mock.patch("tuner.runs.training.EvaluationGrid", Grid):
        run_training(run_config(), folder, reporter)


@pytest.mark.parametrize(
    ("stop_at", "outcome"), [(0.2, Outcome.PRUNED), (0.5, Outcome.STOPPED), (0.9, Outcome.PRUNED)], ids=str
)
def test_a_run_in_two_attempts_has_the_times_of_one_in_one(
    tmp_path: Path, time: Time, stop_at: float, outcome: Outcome
) -> None:
    """Stopped, it goes on from there; killed (nothing is written), from its last checkpoint."""
    straight = Timekeeper(time)
    timed_run(tmp_path / "straight", straight)
    torn = Timekeeper(time, stop_at, outcome)
    with pytest.raises(TrialInterrupted):
        timed_run(tmp_path / "torn", torn)
    torn.stop_at = math.inf
    timed_run(tmp_path / "torn", torn)
    assert torn.seconds == straight.seconds
    assert 0.0 < min(straight.seconds.values()) < max(straight.seconds.values()) < 100.0 * len(straight.seconds)
