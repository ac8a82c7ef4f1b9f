"""Which rungs prune: those whose scores predict the end, and what a run is compared by at them."""

from pathlib import Path

import pytest
from optuna.trial import TrialState

from tests.tuner.entries import quality
from tests.tuner.studies import FakeExecutor, Script, asha, learn, run_study
from tests.tuner.study_records import stored
from tuner.results.metric import Mixed
from tuner.results.protocol import Pruning
from tuner.study import StudyListener
from tuner.trial.messages import Outcome, TrialSpec


def test_the_first_runs_are_not_pruned_and_later_ones_are(tmp_path: Path) -> None:
    notes: list[str] = []

    class Notes(StudyListener):
        def on_note(self, text: str) -> None:
            notes.append(text)

    executor = FakeExecutor()
    summary = run_study(
        tmp_path, executor, pruner=asha(), num_trials=24, pruning=Pruning(min_trials=8), listener=Notes()
    )
    screened = summary.stage("screen")
    assert all(run.outcome is Outcome.COMPLETE for run in screened[:8])
    pruned = [run for run in screened if run.outcome is Outcome.PRUNED]
    assert len(pruned) >= 4
    for run in pruned:
        assert len(run.curve) in (1, 3), "runs are pruned at rungs only"
        assert run.value == Mixed().partial(run.curve, 1.0)
        assert stored(tmp_path).trials[run.number].state is TrialState.PRUNED
    assert {run.outcome for run in (*summary.stage("confirm"), *summary.stage("test"))} == {Outcome.COMPLETE}
    (note,) = notes
    assert note.startswith(
        "Runs may be pruned at 11% and 33% of the budget. Rank correlation of early with final scores"
    )
    assert "on the first 8 complete runs, with its lower bound at 90 % confidence: 0.90 (0.63) at 11%" in note
    assert note in summary.notes
    best = max(quality({"optimizer": {"learning_rate": run.params["optimizer.learning_rate"]}}) for run in screened)
    assert summary.winner_label is not None
    rate = summary.params_of(summary.winner_label)["optimizer.learning_rate"]
    assert quality({"optimizer": {"learning_rate": rate}}) >= 0.9 * best, "pruning did not cost the best"


def test_reports_at_rungs_compare_like_with_like(tmp_path: Path) -> None:
    summary = run_study(tmp_path, pruner=asha(), num_trials=10, pruning=Pruning(min_trials=8))
    for trial, run in zip(stored(tmp_path).trials, summary.stage("screen"), strict=True):
        expected = {point: Mixed().partial(run.curve, point / 9) for point in (1, 3, 9) if point <= len(run.curve)}
        assert trial.intermediate_values == pytest.approx(expected)


def test_reports_between_rungs_are_judged_by_what_was_reported_before_them(tmp_path: Path) -> None:
    def tenths(spec: TrialSpec, attempt: int) -> Script:
        values = [value for _, value in learn(spec, attempt).curve]
        return Script([(index / 10, values[min(index, 9) - 1]) for index in range(1, 11)])

    executor = FakeExecutor(behave=tenths)
    summary = run_study(tmp_path, executor, pruner=asha(), num_trials=24, pruning=Pruning(min_trials=8))
    screened = summary.stage("screen")
    pruned = [run for run in screened if run.outcome is Outcome.PRUNED]
    assert len(pruned) >= 4
    assert {len(run.curve) for run in pruned} <= {2, 4}  # 0.2 and 0.4 are the first behind 1/9 and 3/9
    for trial, run in zip(stored(tmp_path).trials, screened, strict=True):
        passed = [point for point in (1, 3, 9) if run.curve[-1][0] >= point / 9]
        expected = {point: Mixed().partial(run.curve, point / 9) for point in passed}
        assert trial.intermediate_values == pytest.approx(expected)


def test_a_run_that_says_its_score_at_the_end_only_passes_no_rung_before(tmp_path: Path) -> None:
    executor = FakeExecutor(behave=lambda spec, attempt: Script(learn(spec, attempt).curve[-1:]))
    run_study(tmp_path, executor, pruner=asha(), num_trials=9, pruning=Pruning(min_trials=8))
    assert [list(trial.intermediate_values) for trial in stored(tmp_path).trials] == [[9]] * 9


def test_nothing_is_pruned_where_early_ranks_say_nothing(tmp_path: Path) -> None:
    def behave(spec: TrialSpec, attempt: int) -> Script:
        """A run that begins well ends badly."""
        curve = learn(spec, attempt).curve
        return Script([(step, -value if step < 0.5 else 10.0 * value) for step, value in curve])

    executor = FakeExecutor(behave=behave)
    summary = run_study(tmp_path, executor, pruner=asha(), num_trials=20, pruning=Pruning(min_trials=8))
    assert {run.outcome for run in summary.stage("screen")} == {Outcome.COMPLETE}
    assert any(note.startswith("No run is pruned: early scores, at 11% and 33% of") for note in summary.notes)


def test_the_decision_about_rungs_is_kept_when_the_study_goes_on(tmp_path: Path) -> None:
    pruning = Pruning(min_trials=8)
    run_study(tmp_path, pruner=asha(), num_trials=8, pruning=pruning)
    before = stored(tmp_path).user_attrs["rungs"]
    run_study(tmp_path, pruner=asha(), num_trials=20, pruning=pruning)
    assert stored(tmp_path).user_attrs["rungs"] == before
