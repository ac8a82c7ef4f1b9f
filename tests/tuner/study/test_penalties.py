"""The score of a run that failed: the worst there is, in the metric of the study."""

from pathlib import Path

import pytest

from tests.tuner.studies import FakeExecutor, Script, ending, learn, random_score, run_study
from tuner.results.metric import StepsTo
from tuner.results.verdict import verdict
from tuner.trial.messages import Outcome, TrialResult, TrialSpec


def test_a_penalty_is_a_score_of_the_studys_own_metric(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A random policy that scores 20 reaches 50 never: that is less than -1, and not 20."""
    random_score(monkeypatch, 20.0)
    executor = FakeExecutor(behave=ending(0, TrialResult(Outcome.DIVERGED, "nan"), reports=1))
    summary = run_study(tmp_path, executor, metric="steps_to_50", probe="tests.tuner.entries:probe")
    run = summary.stage("screen")[0]
    assert run.value is not None
    expected = [StepsTo(50.0)([(1.0, 20.0)]), StepsTo(50.0)(run.curve)]
    assert run.value == min(expected)
    assert run.value < -1.0


def test_without_a_random_score_failed_runs_get_the_worst_of_the_whole_study(tmp_path: Path) -> None:
    """Screening sees 40 and less, down to 3; whatever fails later scores 3, however well it began."""

    def behave(spec: TrialSpec, attempt: int) -> Script:
        if spec.stage == "screen":
            return Script([(1.0, [40.0, 30.0, 3.0][spec.number])])
        bad = spec.stage == "test" and spec.config["optimizer"]["learning_rate"] == 0.1  # the default's
        return Script([(1.0, 35.0)], TrialResult(Outcome.DIVERGED, "nan") if bad else TrialResult(Outcome.COMPLETE))

    summary = run_study(tmp_path, FakeExecutor(behave=behave), metric="final", num_trials=3, num_candidates=1)
    assert summary.random_score is None
    assert [(run.label, run.outcome, run.value) for run in summary.stage("test")] == [
        ("trial 0", Outcome.COMPLETE, 35.0),
        ("default", Outcome.DIVERGED, 3.0),
        ("trial 0", Outcome.COMPLETE, 35.0),
        ("default", Outcome.DIVERGED, 3.0),
    ]
    found = verdict(summary)
    assert found.difference is None
    assert found.improvement is None
    assert "The default configuration finished none of its 2 test runs (2 diverged)." in found.sentence
    assert "2 of 4 test runs failed (2 diverged). They count with the worst score seen." in found.details


def test_one_absurd_score_is_not_the_penalty_of_all_failed_runs(tmp_path: Path) -> None:
    def behave(spec: TrialSpec, attempt: int) -> Script:
        if spec.key == "screen/2":
            return Script([(1.0, -1.7e308)])
        if spec.stage == "screen" and spec.number > 2:
            return Script([], TrialResult(Outcome.DIVERGED, "nan"))
        return learn(spec, attempt)

    screened = run_study(tmp_path, FakeExecutor(behave=behave), num_trials=8).stage("screen")
    usual = [run.value for run in screened[:2]]
    assert screened[2].value == -1.7e308, "what it said is kept"
    assert [run.outcome for run in screened[3:]] == [Outcome.DIVERGED] * 5
    assert {run.value for run in screened[3:]} == {min(usual)}
