"""Summary of a study when it is over: its winner, its notes, its numbers."""

from pathlib import Path

import optuna
import pytest

from tests.tuner.reporting.summaries import run
from tests.tuner.studies import SPACE, asha, journal, random_score, run_study
from tuner.results.protocol import Pruning
from tuner.results.summary_json import summary_from_json, summary_to_json
from tuner.study import StudyStore, find_winner
from tuner.study.summary import _unlike_reports
from tuner.trial.messages import Outcome


def test_the_winning_config_is_kept(tmp_path: Path) -> None:
    summary = run_study(tmp_path)
    with StudyStore(journal(tmp_path)) as store:
        winner = find_winner(store, "study")
    assert winner is not None
    assert winner.label == summary.winner_label
    assert winner.values == summary.params_of(winner.label)
    assert winner.config["optimizer"]["learning_rate"] == winner.values["optimizer.learning_rate"]


def test_the_summary_knows_the_random_score(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    random_score(monkeypatch, -7.0)
    assert run_study(tmp_path, probe="tests.tuner.entries:probe").random_score == -7.0


def test_without_a_pruner_nothing_is_decided(tmp_path: Path) -> None:
    summary = run_study(tmp_path, num_trials=12, pruning=Pruning(min_trials=4))
    assert {run.outcome for run in summary.stage("screen")} == {Outcome.COMPLETE}
    assert "Nothing was pruned: pruning is off (pruner=none)." in summary.notes


def test_a_study_too_small_to_prune_says_so(tmp_path: Path) -> None:
    facts = {"pruner": "SuccessiveHalvingPruner"}
    summary = run_study(tmp_path, pruner=asha(), num_trials=6, pruning=Pruning(min_trials=8), facts=facts)
    assert "Nothing was pruned: 6 complete runs are too few to judge early scores by, 8 are needed." in summary.notes


@pytest.mark.parametrize(
    ("backend", "steps", "said"),
    [
        ("", (0.5, 1.0), True),
        ("", (1 / 3, 2 / 3, 1.0), False),
        ("", (1 / 3 + 1e-13, 2 / 3, 1.0), False),
        ("torch", (0.5, 1.0), False),
    ],
)
def test_runs_of_a_function_that_report_at_different_points_are_named(
    backend: str, steps: tuple[float, ...], said: bool
) -> None:
    curves = [tuple((step, 1.0) for step in own) for own in ((1 / 3, 2 / 3, 1.0), steps)]
    runs = [run(f"trial {number}", "screen", 1.0, curve=curve) for number, curve in enumerate(curves)]
    runs.append(run("trial 2", "screen", 1.0, curve=((0.25, 1.0),), used=0.25))  # it ended by itself
    runs.append(run("trial 3", "screen", 1.0, curve=((0.1, 1.0),), outcome=Outcome.PRUNED))
    note = (
        "Complete runs reported at different points (2 to 3 reports a run), and study.metric=mixed depends on these "
        "points: let every run report at the same fractions."
    )
    assert _unlike_reports({"backend": backend, "metric": "mixed"}, runs) == [note] * said


def test_the_summary_says_what_matters_and_how_it_was_got(tmp_path: Path) -> None:
    summary = run_study(tmp_path, num_trials=30)
    assert (summary.agent, summary.env_id, summary.backend, summary.seed) == ("synthetic", "Synthetic-v0", "torch", 0)
    assert max(summary.importances, key=lambda path: summary.importances[path]) == "optimizer.learning_rate"
    assert summary.metric_name == "half area under the curve, half final score"
    assert summary.budget["screening trials"] == 30
    assert summary.budget["environment steps per run"] == 900
    assert summary.versions["optuna"] == optuna.__version__
    assert "tensorflow" not in summary.versions
    run = summary.stage("screen")[0]
    assert run.scores.keys() == {"final", "auc"}
    assert run.value == pytest.approx(0.5 * run.scores["final"] + 0.5 * run.scores["auc"])
    assert run.folder == str(tmp_path / "studies" / "study" / "screen" / "0")


def test_a_summary_knows_how_each_parameter_was_spread(tmp_path: Path) -> None:
    share = {"low": 0.125, "high": 1.0, "of": "buffer.train_freq"}
    space = {**SPACE, "buffer": {**SPACE["buffer"], "gradient_steps": share}}
    space["agent"] = {**SPACE["agent"], "kind": {"choices": ["plain", "wild"]}}
    summary = run_study(tmp_path, space=space, num_trials=1, num_candidates=1)
    assert summary.scales == {
        "agent.gamma": "one_minus",
        "agent.kind": "category",
        "buffer.batch_size": "log",
        "buffer.gradient_steps": "linear",
        "optimizer.learning_rate": "log",
    }
    assert summary_from_json(summary_to_json(summary)) == summary
