"""A summary as JSON, and back."""

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.tuner.results.runs_of import run, study
from tuner.results.records import RunRecord, StudySummary
from tuner.results.summary_json import summary_from_json, summary_to_json
from tuner.trial.messages import Outcome

VALUES = st.floats(allow_nan=False)


SCALARS = st.one_of(st.none(), st.booleans(), st.integers(-9, 9), VALUES, st.text(max_size=5))


RUNS = st.builds(
    RunRecord,
    number=st.integers(0, 99),
    stage=st.sampled_from(["screen", "confirm", "test"]),
    label=st.text(max_size=5),
    seed=st.integers(0, 2**32),
    params=st.dictionaries(st.text(max_size=4), SCALARS, max_size=3),
    outcome=st.one_of(st.none(), st.sampled_from(Outcome)),
    value=st.one_of(st.none(), VALUES),
    reason=st.text(max_size=5),
    curve=st.lists(st.tuples(VALUES, VALUES), max_size=3).map(tuple),
    seconds=st.floats(0, 1e6),
    scores=st.dictionaries(st.text(max_size=4), VALUES, max_size=2),
)


@given(st.lists(RUNS, max_size=3), st.text(max_size=5))
def test_a_summary_survives_json(runs: list[RunRecord], note: str) -> None:
    summary = StudySummary(
        "a",
        "b",
        "c",
        "d",
        "e",
        tuple(runs),
        "w",
        importances={"x": 0.5},
        notes=(note,),
        versions={"numpy": "2"},
        seed=1,
    )
    text = summary_to_json(summary)
    json.loads(text, parse_constant=pytest.fail)  # NaN and Infinity are no JSON
    assert summary_from_json(text) == summary


def test_not_a_number_survives_json() -> None:
    summary = summary_from_json(summary_to_json(study(run("trial 0", "screen", 0, math.nan))))
    assert summary.runs[0].value is not None
    assert math.isnan(summary.runs[0].value)


@pytest.mark.parametrize("text", ["{}", "[]", '{"written_by": {"format": 99}, "name": "later"}'])
def test_foreign_json_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not a study summary that can be read: "):
        summary_from_json(text)
