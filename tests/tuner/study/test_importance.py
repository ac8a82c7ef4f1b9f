"""Importances, what chance alone would have made of them, and how they change over training."""

import json
from pathlib import Path

import numpy as np
import optuna
import pytest
from optuna.distributions import FloatDistribution
from optuna.trial import TrialState, create_trial

from tests.tuner.studies import journal, run_study
from tuner.results.metric import Final
from tuner.results.summary_json import summary_from_json, summary_to_json
from tuner.runs.simulator import Synthetic
from tuner.study import StudyStore, summarise
from tuner.study.importance import importances, over_time
from tuner.trial.messages import JsonDict

SPACE = {name: {"path": f"agent.{name}"} for name in ("early", "late", "dummy")}


def study(num_trials: int = 60, direction: str = "maximize") -> optuna.Study:
    """The first half of a curve depends on `early` alone, the second on `late` alone, nothing on `dummy`."""
    made = optuna.create_study(direction=direction, sampler=optuna.samplers.RandomSampler())
    rng = np.random.default_rng(0)
    sign = 1.0 if direction == "maximize" else -1.0
    for _ in range(num_trials):
        params = {name: float(rng.random()) for name in SPACE}
        curve = [(0.5, -((params["early"] - 0.2) ** 2)), (1.0, -((params["late"] - 0.8) ** 2))]
        made.add_trial(
            create_trial(
                state=TrialState.COMPLETE,
                params=params,
                distributions={name: FloatDistribution(0.0, 1.0) for name in params},
                value=sign * curve[-1][1],
                user_attrs={"ending": {"curve": json.dumps(curve)}, "outcome": "complete"},
            )
        )
    return made


@pytest.mark.parametrize("direction", ["maximize", "minimize"])
def test_only_what_matters_rises_above_chance(direction: str) -> None:
    found = importances(study(direction=direction), SPACE, maximised=direction == "maximize")
    assert next(iter(found.shares)) == "agent.late"
    assert sum(found.shares.values()) == pytest.approx(1.0)
    assert found.shares["agent.late"] > 3 * found.null["agent.late"]
    assert found.shares["agent.dummy"] < found.null["agent.dummy"]
    assert found.shares["agent.early"] < 2 * found.null["agent.early"]  # one in twenty lies above, and this one does


def tuned_by_tpe(seed: int) -> tuple[optuna.Study, JsonDict]:
    """20 trials of the synthetic learner, of which the last 10 lie where the first were good."""
    sampler = optuna.samplers.TPESampler(seed=seed, n_startup_trials=10, multivariate=True, group=True)
    made = optuna.create_study(direction="maximize", sampler=sampler)
    for _ in range(20):
        trial = made.ask()
        learner = Synthetic(
            learning_rate=trial.suggest_float("learning_rate", 1e-5, 1.0, log=True),
            gamma=1.0 - trial.suggest_float("1-gamma", 1e-4, 0.2, log=True),
            batch_size=2 ** trial.suggest_int("log2(batch_size)", 3, 10),
            activation=trial.suggest_categorical("activation", ["relu", "tanh", "sigmoid"]),
            entropy_coef=trial.suggest_float("entropy_coef", 0.0, 0.1),
        )
        made.tell(trial, learner.curve(seed=1)[-1][1])
    return made, {name: {"path": name} for name in made.trials[0].params}


@pytest.mark.filterwarnings("ignore::optuna.exceptions.ExperimentalWarning")
def test_where_a_sampler_crowds_trials_together_the_learning_rate_still_matters_most() -> None:
    for seed in range(6):
        found = importances(*tuned_by_tpe(seed))
        assert next(iter(found.shares)) == "learning_rate", "it has 73 % of the variance over the space, the next 11 %"
        assert found.shares["entropy_coef"] < max(0.1, found.null["entropy_coef"]), "it does nothing"


def test_pruned_trials_count_as_the_low_ones_they_are() -> None:
    """Of what depends on `late` alone, only trials near its optimum were not pruned."""
    made = study(0)
    for trial in study().trials:
        kept = trial.value is not None and trial.value > -0.02
        made.add_trial(
            create_trial(
                state=TrialState.COMPLETE if kept else TrialState.PRUNED,
                params=trial.params,
                distributions=trial.distributions,
                value=trial.value,
            )
        )
    assert len(made.get_trials(states=(TrialState.PRUNED,))) > 30
    assert importances(made, SPACE).shares["agent.late"] > 0.9


def test_chance_never_reaches_more_than_all() -> None:
    made, rng = study(0), np.random.default_rng(3)
    for _ in range(20):
        params = {name: float(rng.random()) for name in SPACE}
        distributions = {name: FloatDistribution(0.0, 1.0) for name in params}
        made.add_trial(create_trial(params=params, distributions=distributions, value=float(rng.random())))
    found = importances(made, SPACE)
    assert max(found.null.values()) == 1.0, "there is nothing but noise"
    assert all(share <= found.null[path] for path, share in found.shares.items())


def test_importance_moves_over_training() -> None:
    early, late = over_time(study(), SPACE, Final())
    assert (early.fraction, late.fraction) == (0.5, 1.0)
    assert max(early.shares, key=lambda path: early.shares[path]) == "agent.early"
    assert max(late.shares, key=lambda path: late.shares[path]) == "agent.late"
    assert early.shares["agent.late"] < early.null["agent.late"]


def test_a_run_that_ended_early_does_not_end_what_is_known_of_the_others() -> None:
    made = study()
    short = {"ending": {"curve": "[[0.5,-9.0]]"}, "outcome": "diverged"}
    distributions = {name: FloatDistribution(0.0, 1.0) for name in SPACE}
    params = dict.fromkeys(SPACE, 0.5)
    made.add_trial(create_trial(params=params, distributions=distributions, value=-9.0, user_attrs=short))
    assert [one.fraction for one in over_time(made, SPACE, Final())] == [0.5, 1.0]


def test_too_few_trials_or_too_equal_ones_say_nothing() -> None:
    assert importances(study(9), SPACE).shares == {}
    flat = study(0)
    for _ in range(20):
        flat.add_trial(create_trial(params={"late": 0.5}, distributions={"late": FloatDistribution(0, 1)}, value=1.0))
    assert importances(flat, SPACE).shares == {}
    assert importances(study(), {}).shares == {}, "nothing was searched"


def test_a_value_that_is_no_number_is_not_the_best_there_is() -> None:
    made = study()
    broken = dict.fromkeys(SPACE, 0.99)
    distributions = {name: FloatDistribution(0.0, 1.0) for name in SPACE}
    for _ in range(10):
        made.add_trial(
            create_trial(state=TrialState.PRUNED, params=broken, distributions=distributions, value=float("inf"))
        )
    assert importances(made, SPACE).shares == importances(study(), SPACE).shares


def test_a_study_of_ours_has_them_at_its_reports(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("summary", "importance"):
        monkeypatch.setattr(f"tuner.study.{module}.PERMUTATIONS", 8)
    run_study(tmp_path, num_trials=30)
    with StudyStore(journal(tmp_path)) as store:
        summary = summarise(store, "study", tmp_path, thorough=True)
        assert summarise(store, "study", tmp_path).importances == summary.importances
    assert len(summary.importance_over_time) == 6
    assert summary.importance_over_time[-1].fraction == 1.0
    assert summary.importances["optimizer.learning_rate"] > summary.importance_null["optimizer.learning_rate"]
    assert summary_from_json(summary_to_json(summary)) == summary
