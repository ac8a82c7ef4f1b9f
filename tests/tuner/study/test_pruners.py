"""Every pruner of conf/pruner: it ends hopeless runs early, and the best of the search is not among them."""

from pathlib import Path
from typing import Any

import pytest

from tests.tuner.entries import quality
from tests.tuner.results.test_protocol import run as record
from tests.tuner.studies import FakeExecutor, run_study
from tuner.config.composition import compose, config_loader
from tuner.results.metric import make_metric
from tuner.results.protocol import Pruning
from tuner.results.records import StudySummary
from tuner.runs.build import build_node
from tuner.runs.config_checks import resolve
from tuner.study import quiet_optuna
from tuner.study.sampling.pruning import RungJudge
from tuner.trial.messages import Outcome


def study(folder: Path, *overrides: str, **changes: Any) -> StudySummary:
    """A study with the pruner and the rungs that a command line asks for."""
    config = resolve(compose(config_loader(), "tune", ["agent=synthetic", *overrides]))
    with quiet_optuna():
        pruner = build_node("pruner", config["pruner"])
    pruning = Pruning(rungs=tuple(config["study"]["pruning"]["rungs"]), min_trials=8)
    return run_study(folder, FakeExecutor(2), pruner=pruner, pruning=pruning, num_trials=24, **changes)


def reached(summary: StudySummary) -> dict[int, int]:
    """Evaluations of each screening run."""
    return {run.number: len(run.curve) for run in summary.stage("screen")}


@pytest.mark.parametrize(
    ("overrides", "at_least"),
    [
        (["pruner=median"], 3),
        (["pruner=percentile"], 3),
        (["pruner=asha"], 3),
        (["pruner=hyperband"], 1),
        (["pruner=wilcoxon"], 3),
        (["pruner=threshold", "pruner.lower=10"], 3),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_hopeless_runs_end_early_and_the_best_does_not(tmp_path: Path, overrides: list[str], at_least: int) -> None:
    summary = study(tmp_path, *overrides)
    screened = summary.stage("screen")
    pruned = [run for run in screened if run.outcome is Outcome.PRUNED]
    assert len(pruned) >= at_least
    assert all(run.number >= 8 for run in pruned), "the first eight decide about the rungs"
    good = {run.number: quality({"optimizer": {"learning_rate": run.params["optimizer.learning_rate"]}})
            for run in screened}  # fmt: skip
    best = max(good, key=lambda number: good[number])
    assert best not in {run.number for run in pruned}
    saved = sum(9 - length for length in reached(summary).values())
    assert saved >= 3 * len(pruned)


def test_none_prunes_nothing(tmp_path: Path) -> None:
    assert set(reached(study(tmp_path, "pruner=none")).values()) == {9}


def test_a_threshold_prunes_exactly_what_is_below_it(tmp_path: Path) -> None:
    summary = study(tmp_path, "pruner=threshold", "pruner.lower=10")
    for run in summary.stage("screen")[8:]:
        assert run.value is not None
        if run.outcome is Outcome.PRUNED:
            assert run.value < 10.0


def test_patience_asks_its_pruner_only_about_runs_that_do_not_improve(tmp_path: Path) -> None:
    """Synthetic curves improve all along: the same pruner, asked without patience, prunes some of them."""
    patient = study(tmp_path / "patient", "pruner=patient", "pruner.min_delta=0.0")
    hasty = study(tmp_path / "hasty", "pruner=median", "study.pruning.rungs=[0.11,0.22,0.33,0.44]")
    num_pruned = [sum(run.outcome is Outcome.PRUNED for run in one.stage("screen")) for one in (patient, hasty)]
    assert num_pruned[0] < num_pruned[1]


def test_only_complete_runs_say_whether_early_ranks_are_right() -> None:
    judge = RungJudge(Pruning(min_trials=4), 9, make_metric("final"))
    outcomes = [Outcome.COMPLETE, Outcome.CRASHED, Outcome.COMPLETE, Outcome.DIVERGED, Outcome.COMPLETE]
    for number, outcome in enumerate([*outcomes, Outcome.STOPPED, Outcome.COMPLETE, Outcome.COMPLETE]):
        curve = tuple((point / 9, float(number * point)) for point in range(1, 10))
        decided = judge.decide(record(number, 9.0 * number, outcome=outcome, curve=curve))
        assert decided is (number == 6), "the fourth complete one"
    assert judge.num_trials == 4
