"""Scores for the ends of runs: a score, none, or a penalty."""

from pathlib import Path

import pytest
from optuna.trial import TrialState

from tests.tuner.studies import FakeExecutor, Script, ending, random_score, run_study
from tests.tuner.study_records import stored
from tuner.trial.messages import Outcome, TrialResult, TrialSpec


@pytest.mark.parametrize("outcome", [Outcome.DIVERGED, Outcome.OUT_OF_MEMORY, Outcome.TIMED_OUT])
@pytest.mark.parametrize("random", [-7.0, 1000.0])
def test_the_configuration_is_blamed_for_what_it_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, outcome: Outcome, random: float
) -> None:
    random_score(monkeypatch, random)
    executor = FakeExecutor(behave=ending(3, TrialResult(outcome, "as it had to come", seconds=2.0)))
    summary = run_study(tmp_path, executor, probe="tests.tuner.entries:probe")
    run = summary.stage("screen")[3]
    worst = min([other.value for other in summary.stage("screen")[:3]] + [value for _, value in run.curve])
    assert run.outcome is outcome
    assert run.value == min(random, worst)
    assert run.reason == "as it had to come"
    assert len(run.curve) == 3
    assert len([spec for spec in executor.started if spec.key == "screen/3"]) == 1
    assert stored(tmp_path).trials[3].state is TrialState.COMPLETE
    assert "trial 3" not in {run.label for run in summary.stage("confirm")}


def test_a_penalty_knows_of_later_stages_of_earlier_sessions(tmp_path: Path) -> None:
    """The tests of three trials saw 1; a fourth trial that fails gets no more."""

    def behave(spec: TrialSpec, attempt: int) -> Script:
        failed = TrialResult(Outcome.DIVERGED, "nan") if spec.key == "screen/3" else TrialResult(Outcome.COMPLETE)
        return Script([(1.0, 1.0 if spec.stage == "test" else 10.0 + spec.number)], failed)

    run_study(tmp_path, FakeExecutor(behave=behave), metric="final", num_trials=3)
    summary = run_study(tmp_path, FakeExecutor(behave=behave), metric="final", num_trials=4)
    assert summary.stage("screen")[3].value == 1.0


def test_a_run_that_reports_nothing_has_failed(tmp_path: Path) -> None:
    executor = FakeExecutor(behave=ending(1, TrialResult(Outcome.COMPLETE), reports=0))
    run = run_study(tmp_path, executor).stage("screen")[1]
    assert (run.outcome, run.reason) == (Outcome.CRASHED, "it ended without having reported anything")
