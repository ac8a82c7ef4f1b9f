"""Specs and results survive their files."""

import json

import pytest

from tuner.trial.messages import Outcome, TrialInterrupted, TrialResult, TrialSpec


def test_spec_survives_its_file_and_knows_its_key():
    spec = TrialSpec("study", "screen", 7, 123, {"env": {"id": "CartPole-v1"}}, threads=2)
    assert TrialSpec.from_json(spec.to_json()) == spec
    assert spec.key == "screen/7"
    assert spec.entry == "tuner.runs.training:run_trial"


def test_result_survives_its_file():
    result = TrialResult(Outcome.TIMED_OUT, "too long", "line 1\nline 2", 1.25)
    assert TrialResult.from_json(result.to_json()) == result
    assert json.loads(result.to_json())["outcome"] == "timed_out"


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '{"outcome": "fine"}', '{"outcome": "complete", "more": 1}'])
def test_damaged_results_and_specs_are_value_errors(text):
    for kind in (TrialResult, TrialSpec):
        with pytest.raises(ValueError):  # noqa: PT011 - JSON's own message, or ours
            kind.from_json(text)


def test_interruption_is_not_swallowed_as_an_exception():
    def train_carelessly():
        try:
            raise TrialInterrupted(Outcome.PRUNED, "at step 3")
        except Exception:  # noqa: BLE001
            return

    with pytest.raises(TrialInterrupted, match="pruned: at step 3") as caught:
        train_carelessly()
    assert caught.value.outcome is Outcome.PRUNED
