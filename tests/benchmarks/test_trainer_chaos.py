"""Faults that `study_chaos.py` finds in killed runs of other trainers."""

import json
from pathlib import Path

import pytest

from tests.benchmarks.chaos_programs import STEPS, Count, Line, attempts
from tests.benchmarks.trainer_chaos import Case, assert_once, losses_of
from tuner.runs.function_state import REPORT_METRIC, REPORT_STEP
from tuner.trial.folder import METRICS_FILE, REPORTS_FILE

CASE = Case((), interval=20, steps=400)


def run_of(place: Path, *tries: tuple[int, int]) -> Path:
    for number, (begin, steps) in enumerate(tries):
        (place / f"steps-{number}-{begin}-9").write_text(str(steps))
    return place


def test_the_loss_of_an_attempt_is_what_the_next_one_repeats(tmp_path: Path) -> None:
    assert losses_of(run_of(tmp_path, (0, 45), (40, 33), (60, 340)), CASE) == [5, 13]


@pytest.mark.parametrize(
    ("tries", "message"),
    [
        ([(0, 61), (40, 360)], r"lost \[21\]"),
        ([(0, 45), (60, 340)], r"lost \[-15\]"),
        ([(0, 45), (40, 350)], "ended at 390 of 400"),
        ([(20, 380)], "began at 20"),
        ([], "took no step"),
    ],
)
def test_other_losses_are_found(tmp_path: Path, tries: list[tuple[int, int]], message: str) -> None:
    with pytest.raises(AssertionError, match=message):
        losses_of(run_of(tmp_path, *tries), CASE)


def test_points_that_stand_twice_are_found(tmp_path: Path) -> None:
    points = [{"step": 0.5, "value": 1.0}, {"step": 1.0, "value": 2.0}]
    (tmp_path / REPORTS_FILE).write_text("".join(f"{json.dumps(one)}\n" for one in points))
    value, beside = {REPORT_METRIC: 1.0, REPORT_STEP: 0.5}, {"loss": 0.1, REPORT_STEP: 0.5}
    kept = f"{json.dumps(value)}\n{json.dumps(beside)}\n"
    (tmp_path / METRICS_FILE).write_text(kept)
    assert_once(tmp_path)
    (tmp_path / METRICS_FILE).write_text(f"{kept}{json.dumps(beside)}\n")
    with pytest.raises(AssertionError, match=r"metrics\.jsonl has a point twice"):
        assert_once(tmp_path)


def test_a_program_that_goes_on_gives_the_same_numbers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    whole = list(Line(0.01, 3).learn(Count(tmp_path, 0)))
    first = Line(0.01, 3)
    begun = first.learn(Count(tmp_path, 0))
    scores = [next(begun) for _ in range(7)]
    later = Line(0.01, 4, json.loads(json.dumps(first.state)))
    assert [*scores, *later.learn(Count(tmp_path, later.steps))] == whole
    assert attempts(tmp_path) == [(0, STEPS), (0, 140), (140, STEPS - 140)]
    assert whole[-1] > whole[0]
