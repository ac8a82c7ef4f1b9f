"""Meaning of a node hydra.sweeper."""

from typing import Any

import pytest
from hydra import compose, initialize
from hydra.core.plugins import Plugins
from hydra.types import HydraContext
from omegaconf import OmegaConf

from tuner.config.composition import conf_folder
from tuner.errors import UserError
from tuner.sweeper.hydra_job import objective_of
from tuner.sweeper.sweeper_settings import in_own_words, translate
from tuner.trial.messages import Limits

OLD_CLASS = "hydra_plugins.hydra_optuna_sweeper.optuna_sweeper.OptunaSweeper"
OUR_CLASS = "hydra_plugins.tuner_sweeper.OptunaSweeper"
TPE = {"_target_": "optuna.samplers.TPESampler", "seed": None, "n_startup_trials": None}


def settings_of(**node: Any) -> Any:
    return translate({"direction": "minimize", "sampler": TPE, **node})


def test_a_config_written_for_hydra_optuna_sweeper_is_understood() -> None:
    settings = translate(
        {
            "direction": ["minimize", "maximize"],
            "n_trials": 30,
            "n_jobs": 3,
            "study_name": "sphere",
            "storage": None,
            "max_failure_rate": 0.5,
            "params": {"x": "interval(-5, 5)"},
            "sampler": {
                "_target_": "optuna.samplers.TPESampler",
                "seed": 123,
                "n_startup_trials": 5,
                "multivariate": None,
            },
            "pruner": None,
        }
    )
    assert settings.directions == ("minimize", "maximize")
    assert (settings.num_trials, settings.parallel, settings.name, settings.storage) == (30, 3, "sphere", "memory")
    assert settings.max_failures == 2  # a batch of 3 of which more than 1.5 fail
    assert settings.seed == 123
    assert settings.sampler == {"_target_": "optuna.samplers.TPESampler", "n_startup_trials": 5}
    assert settings.params == {"x": "interval(-5, 5)"}


def test_what_is_not_set_has_a_default() -> None:
    settings = settings_of(num_trials=None, wall_s=None)
    assert (settings.num_trials, settings.parallel, settings.retries, settings.seed) == (None, 2, 1, 0)
    assert settings.limits == Limits(grace_s=3.0)
    assert settings.sampler == {"_target_": TPE["_target_"]}, "Optuna's defaults hold"


def test_our_own_names() -> None:
    settings = settings_of(num_trials=7, parallel=1, name="s", wall_s=60, storage="memory", isolation="spawn")
    assert (settings.num_trials, settings.parallel, settings.name, settings.isolation) == (7, 1, "s", "spawn")
    assert settings.limits == Limits(wall_s=60.0, grace_s=3.0)


@pytest.mark.parametrize(("rate", "in_a_row"), [(0.0, 1), (0.5, 3), (0.3, 2), (1.0, 2**31)])
def test_the_old_failure_rate_counts_failures_of_a_batch(rate: float, in_a_row: int) -> None:
    assert settings_of(n_jobs=4, max_failure_rate=rate).max_failures == in_a_row


@pytest.mark.parametrize(
    ("node", "reason"),
    [
        ({"direction": None}, "direction is not set"),
        ({"direction": []}, "direction is not set"),
        ({"direction": "up"}, "direction=up must be minimize or maximize"),
        ({"direction": ["minimize", 3]}, "direction=3"),
        ({"n_trials": 3, "num_trials": 3}, "the same setting"),
        ({"n_trials": 0}, "num_trials=0 must be a whole number, at least 1"),
        ({"n_jobs": 1.5}, "parallel=1.5"),
        ({"n_trails": 3}, "unknown key hydra.sweeper.n_trails; did you mean .*n_trials"),
        ({"custom_search_space": "my_own.space"}, "custom_search_space=my_own.space cannot be imported"),
        ({"search_space": {"x": {"type": "uniform"}}}, "search_space.x=.* needs a type, categorical, float, int"),
        ({"search_space": {"x": {"type": "int", "low": 1}}}, "search_space.x with type: int needs high"),
        (
            {"search_space": {"x": {"type": "float", "low": 1, "high": 2, "stop": 3}}},
            "search_space.x.stop is not possible",
        ),
        ({"search_space": {"x": {"type": "float", "low": "a", "high": 2}}}, "needs numbers"),
        ({"report": "no"}, "report=no must be true or false"),
        ({"sampler": "random"}, "hydra/sweeper/sampler=NAME"),
        ({"params": "x"}, "map config paths"),
        ({"wall_s": -1}, "hydra.sweeper.wall_s must be greater than 0"),
        ({"wall_s": "long"}, "long"),
        ({"isolation": "none"}, "forkserver or spawn"),
        ({"max_failure_rate": 2}, "max_failure_rate=2 must lie in"),
        ({"storage": {"_target_": "optuna.storages.InMemoryStorage"}}, "must be a URL"),
        (
            {"direction": ["minimize", "maximize"], "pruner": {"_target_": "optuna.pruners.MedianPruner"}},
            "several directions",
        ),
    ],
)
def test_what_is_wrong_is_said(node: dict[str, Any], reason: str) -> None:
    with pytest.raises(UserError, match=reason):
        settings_of(**node)


def test_messages_of_the_engine_name_settings_as_the_sweeper_does() -> None:
    assert in_own_words("raise executor.limits.wall_s; study.num_trials=11 has 6 further ones") == (
        "raise hydra.sweeper.wall_s; hydra.sweeper.n_trials=11 has 6 further ones"
    )
    assert in_own_words("choose another name (study.name=...) or storage.url") == (
        "choose another name (hydra.sweeper.study_name=...) or hydra.sweeper.storage"
    )


@pytest.mark.parametrize(
    ("returned", "num", "expected"),
    [
        (2, 1, {"values": [2.0]}),
        ((1, 2.5), 2, {"values": [1.0, 2.5]}),
        (None, 1, "returned None"),
        ("3", 1, "returned '3'"),
        ((1, 2), 1, "a number"),
        ((1, None), 2, "2 numbers, one for each direction"),
        (1.0, 2, "2 numbers"),
        ({"loss": 1}, 1, "a number"),
    ],
)
def test_what_a_task_function_may_return(returned: object, num: int, expected: Any) -> None:
    objective = objective_of(returned, num)
    if isinstance(expected, str):
        assert expected in objective["complaint"]
    else:
        assert objective == expected


@pytest.mark.parametrize(("node", "gpus"), [({}, "auto"), ({"gpus": [0]}, [0]), ({"gpus": None}, None)])
def test_gpus_are_dealt_out_unless_they_are_to_be_left_alone(node: dict[str, Any], gpus: object) -> None:
    assert settings_of(**node).gpus == gpus


@pytest.mark.parametrize("name", sorted(path.stem for path in (conf_folder() / "executor").glob("*.yaml")))
def test_executors_of_other_applications_have_the_defaults_of_our_own(name):
    with initialize(version_base=None):
        choice = [
            f"+executor@hydra.sweeper.executor={name}",
            "hydra/sweeper=optuna",
            "hydra.sweeper.direction=minimize",
        ]
        config = compose(overrides=choice, return_hydra_config=True)
    found = OmegaConf.to_container(config.hydra.sweeper.executor)
    written = OmegaConf.load(conf_folder() / "executor" / f"{name}.yaml")
    if "backend" in written:
        written.backend = "none"  # it refers to a part of the configuration that only `tuner` has
    assert found == OmegaConf.to_container(written)
    node = OmegaConf.to_container(config.hydra.sweeper)
    settings = translate({key: value for key, value in node.items() if not key.startswith("_")})
    assert settings.executor == found


def test_the_class_of_hydra_optuna_sweeper_means_this_one():
    config = OmegaConf.create({"hydra": {"sweeper": {"_target_": OLD_CLASS, "n_trials": 3}}})
    sweeper = Plugins.instance().instantiate_sweeper(
        hydra_context=HydraContext(None, None), task_function=print, config=config
    )
    assert type(sweeper).sweep is Plugins.instance().class_name_to_class[OUR_CLASS].sweep


@pytest.mark.parametrize(
    ("choice", "pruner"),
    [
        (None, None),
        ("none", "NopPruner"),
        ("median", "MedianPruner"),
        ("percentile", "PercentilePruner"),
        ("asha", "SuccessiveHalvingPruner"),
        ("hyperband", "HyperbandPruner"),
        ("threshold", "ThresholdPruner"),
    ],
)
def test_the_pruner_that_is_named_is_the_one_there_is_and_without_a_name_there_is_none(choice, pruner):
    named = [] if choice is None else [f"hydra/sweeper/pruner={choice}"]
    overrides = ["hydra/sweeper=optuna", "hydra.sweeper.direction=minimize", *named]
    with initialize(version_base=None):
        config = compose(overrides=overrides, return_hydra_config=True)
    node = OmegaConf.to_container(config.hydra.sweeper)
    settings = translate({key: value for key, value in node.items() if not key.startswith("_")})
    assert settings.sampler["_target_"] == "optuna.samplers.TPESampler"
    assert (settings.pruner or {}).get("_target_") == (pruner and f"optuna.pruners.{pruner}")
