"""Reports and results of a plain function: values that cannot be points of a curve are refused, and named."""

import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import tuner as package
from tests.tuner.runs.reporters import Reporter
from tests.tuner.studies import FakeExecutor, learn, run_study
from tuner.errors import UserError
from tuner.results.insights.effort import ended_by_themselves
from tuner.runs.functions import run_function
from tuner.trial.messages import Outcome, TrialResult


def called(monkeypatch: pytest.MonkeyPatch, reporter: Reporter, function: Callable[[], Any]) -> None:
    """Runs a function as agent=function does."""
    module = ModuleType("a_function")
    module.train = function  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "a_function", module)
    config = {"agent": {"_target_": "a_function.train"}, "seed": 0, "training": {"total_steps": 10}}
    run_function(config, Path(), reporter)


def reporting(*points: Any, returns: Any = None) -> Callable[[], Any]:
    def train() -> Any:
        for step, value in points:
            package.report(step, value)
        return returns

    return train


@pytest.mark.parametrize(
    ("points", "message"),
    [
        (
            [(0.9, 5.0), (0.1, 1.0)],
            r"tuner.report\(0.1, 1.0\): it comes after the report at 0.9, and the first",
        ),
        ([(0.5, 5.0), (0.5, 7.0)], r"tuner.report\(0.5, 7.0\): 5 was reported there before; report one score for each"),
        ([(0.3, 1.0), (0.1 * 3, 2.0)], "1 was reported there before"),  # 0.30000000000000004
        (
            [(1.5, 1.0)],
            r"tuner.report\(1.5, 1.0\): the first number is the done part of the run, above 0",
        ),
        ([(None, 1.0)], r"tuner.report\(None, 1.0\): the first number is the done part"),
        ([(0.5, "7")], r"tuner.report\(0.5, '7'\): the second must be one number, the score there"),
        ([(0.5, 1 + 2j)], "the second must be one number"),
        ([(0.5, np.array(1 + 2j))], "the second must be one number"),
        ([(0.5, np.zeros(3))], "the second must be one number"),
    ],
)
@pytest.mark.parametrize("caught", [False, True])
def test_reports_that_are_no_curve_are_refused(
    monkeypatch: pytest.MonkeyPatch, points: Any, message: str, caught: bool
) -> None:
    def catching() -> float:
        with suppress(UserError):
            reporting(*points)()
        return 100.0

    reporter = Reporter()
    with pytest.raises(UserError, match=message):
        called(monkeypatch, reporter, catching if caught else reporting(*points))
    assert len(reporter.reported) == len(points) - 1


def test_the_same_report_again_and_what_an_earlier_attempt_has_reported_are_no_mistake(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    reporter = Reporter()
    reporter.reported = [(0.25, 1.0), (0.75, 2.0)]  # from whence it goes on is its own business
    called(monkeypatch, reporter, reporting((0.25, 1.5), (0.5, 3.0), (0.5, 3.0), (0.75, 2.5), (1.0, np.float32(4.0))))
    assert reporter.reported == [(0.25, 1.0), (0.75, 2.0), (0.5, 3.0), (1.0, 4.0)]


@pytest.mark.parametrize(
    ("returned", "reason_part"),
    [
        (None, ""),
        (4.0, ""),
        (np.float64(4.0), ""),
        ({"loss": 1.0}, ""),
        (float("inf"), "it returned inf, but its score is the 4 that it had reported at its end"),
        (1 + 2j, "it returned (1+2j), but its score is the 4 that"),
        ("7", "it returned '7', but its score is the 4 that"),
        (5, "it returned 5, but its score is the 4 that"),
        (np.array([7.0]), "it returned array([7.]), but its score is the 4 that"),
        (np.array([4.0]), ""),
        (10**400, "but its score is the 4 that"),
    ],
)
def test_a_return_value_beside_a_score_is_named_in_the_reason(
    monkeypatch: pytest.MonkeyPatch, returned: Any, reason_part: str
) -> None:
    said: list[tuple[str, float]] = []
    reporter = Reporter()
    monkeypatch.setattr(reporter, "ends", lambda reason, used: said.append((reason, used)))
    called(monkeypatch, reporter, reporting((1.0, 4.0), returns=returned))
    assert reporter.reported == [(1.0, 4.0)]
    assert len(said) == bool(reason_part)
    assert all(reason_part in reason and used == 1.0 for reason, used in said)


@pytest.mark.parametrize("returned", [10**400, Fraction(-(10**400), 3), float("nan")])
def test_a_score_that_is_not_finite_has_diverged(monkeypatch: pytest.MonkeyPatch, returned: Any) -> None:
    reporter = Reporter()
    called(monkeypatch, reporter, reporting((0.5, 1.0), returns=returned))
    assert len(reporter.reported) == 2
    assert not np.isfinite(reporter.reported[1][1])


def test_a_study_says_what_was_not_counted_and_takes_the_run_for_a_whole_one(tmp_path: Path) -> None:
    result = TrialResult(Outcome.COMPLETE, "it returned '7', but its score is the 1 that it had reported", seconds=1.0)
    executor = FakeExecutor(behave=lambda spec, attempt: replace(learn(spec, attempt), result=result))
    summary = run_study(tmp_path, executor)
    assert {run.reason for run in summary.runs} == {result.reason}
    assert ended_by_themselves(summary) == ()
    kept = f"{len(summary.runs)} complete runs said something at the end, first screen/0: {result.reason}."
    assert kept in summary.notes
