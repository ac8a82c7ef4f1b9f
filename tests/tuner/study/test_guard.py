"""Failures in a row end a study, unless some of its runs have learnt."""

import re
from pathlib import Path

import pytest

from tests.tuner.studies import FakeExecutor, Script, crash, learn, run_study
from tests.tuner.study.test_outcomes import FAILED, ends_so
from tuner.results.records import RunRecord
from tuner.study import StudyError
from tuner.study.guard import Guard
from tuner.trial.messages import Outcome, TrialResult, TrialSpec
from tuner.trial.outcomes import Counts


def test_failures_in_a_row_end_the_study_with_the_likely_cause(tmp_path: Path) -> None:
    executor = FakeExecutor(parallel=2, behave=crash)
    with pytest.raises(StudyError) as raised:
        run_study(tmp_path, executor, num_trials=20, max_failures=4)
    message = str(raised.value)
    assert "4 runs in a row failed" in message
    assert "ImportError: no module named x" in message
    assert re.search(r"See \S+/screen/\d/result.json; once it is mended", message), "these have printed nothing"
    assert "These 4 count among study.num_trials; study.num_trials=24 has 20 further ones" in message
    assert len({spec.number for spec in executor.started}) <= 5


def test_failures_between_successes_do_not_end_it(tmp_path: Path) -> None:
    def behave(spec: TrialSpec, attempt: int) -> Script:
        return crash(spec, attempt) if spec.stage == "screen" and spec.number % 2 else learn(spec, attempt)

    summary = run_study(tmp_path, FakeExecutor(behave=behave), num_trials=12, max_failures=2)
    assert len([run for run in summary.stage("screen") if run.outcome is Outcome.CRASHED]) == 6


def test_a_limit_that_nothing_keeps_ends_the_study_too(tmp_path: Path) -> None:
    timed_out = TrialResult(Outcome.TIMED_OUT, "it ran longer than limits.wall_s=1 s")
    executor = FakeExecutor(behave=lambda spec, attempt: Script([(1 / 9, 3.0)], timed_out))
    with pytest.raises(StudyError, match=r"5 runs in a row failed.*limits.wall_s=1 s") as raised:
        run_study(tmp_path, executor, num_trials=6)
    assert "raise executor.limits.wall_s if that was too little" in str(raised.value)
    assert "output.log" not in str(raised.value)
    assert "These 5 count among study.num_trials; study.num_trials=11 has 6 further ones" in str(raised.value)
    executor = FakeExecutor()
    run_study(tmp_path, executor, num_trials=11)
    assert len([spec for spec in executor.started if spec.stage == "screen"]) == 6


def test_configurations_that_diverge_in_a_row_do_not_end_a_study_in_which_some_learn(tmp_path: Path) -> None:
    def behave(spec: TrialSpec, attempt: int) -> Script:
        bad = spec.stage == "screen" and spec.number not in (0, 11)
        return Script([(1 / 9, 3.0)], TrialResult(Outcome.DIVERGED, "nan")) if bad else learn(spec, attempt)

    summary = run_study(tmp_path, FakeExecutor(behave=behave), num_trials=12)
    assert len([run for run in summary.stage("screen") if run.outcome is Outcome.DIVERGED]) == 10


def test_that_some_have_learnt_is_known_after_a_restart(tmp_path: Path) -> None:
    run_study(tmp_path, num_trials=6)
    executor = FakeExecutor(
        behave=lambda spec, attempt: (
            Script(learn(spec, attempt).curve[:2], TrialResult(Outcome.DIVERGED, "nan"))
            if spec.stage == "screen"
            else learn(spec, attempt)
        )
    )
    assert len(run_study(tmp_path, executor, num_trials=20).stage("screen")) == 20


def record(outcome: Outcome) -> RunRecord:
    return RunRecord(0, "screen", "trial 0", 0, {}, outcome, None)


@pytest.mark.parametrize("outcome", Outcome)
@pytest.mark.parametrize("any_success", [False, True])
def test_the_guard_counts_as_the_row_says(outcome: Outcome, any_success: bool) -> None:
    guard, rule = Guard(limit=3), outcome.effects.counts
    if any_success:
        guard.restore(record(Outcome.PRUNED))
    is_too_many = [guard.count(record(outcome)) for _ in range(3)]
    counts = rule is Counts.ALWAYS or (rule is Counts.UNTIL_A_SUCCESS and not any_success)
    assert is_too_many == [False, False, counts]
    assert len(guard.streak) == (3 if counts else 0)


@pytest.mark.parametrize("outcome", FAILED)
def test_the_guard_names_the_remedy_where_the_output_says_nothing(tmp_path: Path, outcome: Outcome) -> None:
    with pytest.raises(StudyError) as refused:
        run_study(tmp_path, FakeExecutor(behave=ends_so(outcome, "")), retries=0, max_failures=2)
    assert (outcome.effects.remedy[1:] in str(refused.value)) == outcome.effects.remedy_first
    assert ("See " in str(refused.value)) != outcome.effects.remedy_first
