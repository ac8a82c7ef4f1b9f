"""Where evaluations took place, as a file says that somebody may have damaged."""

import json
from pathlib import Path

import pytest

from tuner.runs.clock import TrainingClock
from tuner.runs.evaluation_steps import EvaluationPlaces
from tuner.trial.folder import EVALUATED_FILE


def test_they_are_kept(tmp_path: Path) -> None:
    EvaluationPlaces(tmp_path).note([80, 160], 162)
    places = EvaluationPlaces(tmp_path)
    assert [places.of(steps) for steps in (80, 160, 240)] == [162, 162, 240]


@pytest.mark.parametrize("number", ["1e400", "-1e400", "NaN", "1" + 400 * "0", '"x"', "null", "[]", "{}"])
def test_what_are_no_numbers_are_nothing(tmp_path: Path, number: str) -> None:
    (tmp_path / EVALUATED_FILE).write_text(f'{{"80": {number}, "160": 170}}')
    assert EvaluationPlaces(tmp_path).of(80) == 80
    (tmp_path / "clock.json").write_text(f'{{"80": {number}}}')
    clock = TrainingClock(tmp_path / "clock.json")
    clock.restore(80, 0.5)
    clock.write(160)
    assert all(0.0 <= seconds < 1e6 for seconds in json.loads((tmp_path / "clock.json").read_text()).values())
