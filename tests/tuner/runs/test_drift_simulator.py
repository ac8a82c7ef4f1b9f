"""The synthetic learner whose best rate changes, against numbers by hand."""

import math

import pytest

from tuner.errors import UserError
from tuner.runs.drift_simulator import Drifting


class Trial:
    """The part of a trial that a run sees."""

    def __init__(self, reported: dict[float, float] | None = None, ends_after: float = 1.0) -> None:
        self.reported = dict(reported or {})
        self.ends_after = ends_after

    def report(self, step: float, value: float) -> None:
        self.reported[step] = value
        if step >= self.ends_after:
            raise StopIteration


def test_the_score_falls_by_the_distance_from_the_best_rate() -> None:
    """One power of ten off, two widths, adds exp(-2) of what it could; a drift of two is passed in equal steps."""
    assert Drifting(0.1, drift=0.0).expected_score() == pytest.approx(100.0)
    assert Drifting(0.01, drift=0.0).expected_score() == pytest.approx(100.0 * math.exp(-2.0))
    followed = {"learning_rate": [(0.0, 10**-1.5), (800.0, 10**-2.5)]}  # the best ones of both halves
    halves = Drifting(schedule=followed, drift=2.0, num_points=2)
    assert halves.expected_score() == pytest.approx(100.0)


def test_a_high_rate_hides_what_it_teaches_until_it_is_lowered() -> None:
    hiding = {"drift": 0.0, "hidden": 15.0}
    assert Drifting(0.1, **hiding).expected_score() == pytest.approx(100.0 - 3 * 15.0)
    lowered = {"learning_rate": [(1500.0, 1e-4)]}  # for the last of 16 parts, which then teaches nothing
    assert Drifting(0.1, schedule=lowered, **hiding).expected_score() == pytest.approx(100.0 * 15 / 16, abs=1e-3)


def test_a_run_goes_on_from_what_it_had_learned_rather_than_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    run = Drifting(0.1, drift=0.0, hidden=15.0, schedule={"learning_rate": [(800.0, 1e-3)]})
    straight, stopped = Trial(), Trial(ends_after=0.5)
    monkeypatch.setattr("tuner.runs.drift_simulator.current_trial", lambda: straight)
    with pytest.raises(StopIteration):
        run(7)
    monkeypatch.setattr("tuner.runs.drift_simulator.current_trial", lambda: stopped)
    with pytest.raises(StopIteration):
        run(7)
    assert max(stopped.reported) == 0.5
    resumed = Trial(stopped.reported)
    monkeypatch.setattr("tuner.runs.drift_simulator.current_trial", lambda: resumed)
    with pytest.raises(StopIteration):
        run(7)
    assert resumed.reported == pytest.approx(straight.reported)
    first_shown, second_shown = straight.reported[0.5], straight.reported[9 / 16]
    assert second_shown - first_shown > 25.0, "two powers of ten lower: 30 more are shown at once"


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(UserError, match="hidden=-1"):
        Drifting(hidden=-1.0)
