"""Summary of a study when it is over: its winner, its notes, its numbers."""

from pathlib import Path

import optuna
import pytest

from tests.tuner.studies import SPACE, asha, journal, random_score, run_study
from tuner.results.protocol import Pruning
from tuner.results.summary_json import summary_from_json, summary_to_json
from tuner.study import StudyStore, find_winner
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
