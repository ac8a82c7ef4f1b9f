"""The table of outcomes, and that a study does with each end what its row says."""

import json
from pathlib import Path

import pytest

from tests.tuner.studies import FakeExecutor, Script, learn, run_study
from tuner.results.insights.failures import failure_kinds
from tuner.study import StudyListener
from tuner.study.run_registry import Run
from tuner.study.watching.trial_tracking import TrackingListener
from tuner.trackers.jsonl import SUMMARY_FILE, JsonlTracker
from tuner.trial.messages import Outcome, TrialResult, TrialSpec
from tuner.trial.outcomes import Counts

RETRIES = 2
ROWS = {
    # succeeded, failed, retried, uses a retry, penalised, counts for the guard
    "complete": (True, False, False, False, False, Counts.NEVER),
    "pruned": (True, False, False, False, False, Counts.NEVER),
    "crashed": (False, True, True, True, False, Counts.ALWAYS),
    "diverged": (False, True, False, False, True, Counts.UNTIL_A_SUCCESS),
    "out_of_memory": (False, True, False, False, True, Counts.UNTIL_A_SUCCESS),
    "timed_out": (False, True, False, False, True, Counts.UNTIL_A_SUCCESS),
    "hung": (False, True, True, True, False, Counts.ALWAYS),
    "lost": (False, True, True, False, False, Counts.ALWAYS),
    "paused": (True, False, False, False, False, Counts.NEVER),
    "stopped": (False, False, False, False, False, Counts.NEVER),
}
FAILED = [outcome for outcome in Outcome if outcome.effects.failed]
RETRIED = [outcome for outcome in FAILED if outcome.effects.retried]
PENALISED = [outcome for outcome in FAILED if outcome.effects.penalised]


def ends_so(outcome: Outcome, key: str = "screen/2", attempts: int = 99, gives_up_after: int = RETRIES):
    """One run ends so after four reports, or all do with `key` "": as often as said; others learn.

    A run that loses its machine does so until its executor gives it up.
    """

    def behave(spec: TrialSpec, attempt: int) -> Script:
        script = learn(spec, attempt)
        if key in ("", spec.key) and attempt <= attempts:
            is_given_up = outcome is Outcome.LOST and attempt > gives_up_after
            return Script(script.curve[:4], TrialResult(outcome, "so it is", seconds=1.0, deterministic=is_given_up))
        return script

    return behave


def starts(executor: FakeExecutor, key: str = "screen/2") -> int:
    return sum(spec.key == key for spec in executor.started)


def test_every_outcome_has_its_row() -> None:
    rows = {
        str(outcome): (row.succeeded, row.failed, row.retried, row.uses_retry, row.penalised, row.counts)
        for outcome in Outcome
        for row in [outcome.effects]
    }
    assert rows == ROWS


@pytest.mark.parametrize("outcome", Outcome)
def test_a_row_does_not_contradict_itself(outcome: Outcome) -> None:
    row = outcome.effects
    assert not (row.succeeded and row.failed)
    assert not (row.retried and row.penalised)
    assert row.retried or not row.uses_retry
    assert bool(row.remedy) == row.failed
    assert (row.counts is Counts.NEVER) != row.failed


@pytest.mark.parametrize("outcome", RETRIED)
def test_a_retried_end_has_no_value_once_its_retries_are_used_up(tmp_path: Path, outcome: Outcome) -> None:
    executor = FakeExecutor(behave=ends_so(outcome))
    run = run_study(tmp_path, executor, retries=RETRIES).stage("screen")[2]
    assert (run.outcome, run.value, starts(executor)) == (outcome, None, 1 + RETRIES)


def test_a_run_that_loses_its_machine_uses_up_no_retry(tmp_path: Path) -> None:
    executor = FakeExecutor(behave=ends_so(Outcome.LOST, attempts=4, gives_up_after=10))
    run = run_study(tmp_path, executor, retries=0, max_failures=2).stage("screen")[2]
    assert (run.outcome, starts(executor)) == (Outcome.COMPLETE, 5)


@pytest.mark.parametrize("outcome", PENALISED)
def test_a_penalised_end_has_the_worst_score(tmp_path: Path, outcome: Outcome) -> None:
    executor = FakeExecutor(behave=ends_so(outcome))
    runs = run_study(tmp_path, executor, retries=RETRIES, metric="final").stage("screen")
    assert (runs[2].outcome, starts(executor)) == (outcome, 1)
    assert runs[2].value == min(run.value for run in runs[:3])


@pytest.mark.parametrize("outcome", FAILED)
def test_a_failure_is_shown_with_its_remedy(tmp_path: Path, outcome: Outcome) -> None:
    (kind,) = failure_kinds(run_study(tmp_path, FakeExecutor(behave=ends_so(outcome)), retries=0))
    assert (kind.outcome, len(kind.runs), kind.remedy) == (outcome, 1, outcome.effects.remedy)


@pytest.mark.parametrize("outcome", [*FAILED, Outcome.PRUNED, Outcome.COMPLETE])
def test_trackers_get_the_exit_code(tmp_path: Path, outcome: Outcome) -> None:
    listener = TrackingListener(JsonlTracker(), "study", 900, tmp_path)
    summary = run_study(tmp_path, FakeExecutor(behave=ends_so(outcome)), listener=listener, retries=0)
    ended = json.loads((Path(summary.stage("screen")[2].folder) / SUMMARY_FILE).read_text())
    assert ended["exit_code"] == (0 if outcome.effects.succeeded else 1)


def test_a_stop_that_nobody_asked_for_is_a_crash(tmp_path: Path) -> None:
    paused: list[str] = []

    class Listening(StudyListener):
        def on_pause(self, run: Run, reason: str) -> None:
            assert run.is_retried
            paused.append(reason)

    executor = FakeExecutor(behave=ends_so(Outcome.STOPPED))
    run = run_study(tmp_path, executor, listener=Listening(), retries=1).stage("screen")[2]
    assert (run.outcome, run.reason, starts(executor)) == (Outcome.CRASHED, "so it is", 2)
    assert paused == ["crashed (so it is); it is tried again, from its last checkpoint if it has one"]
