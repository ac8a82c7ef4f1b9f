"""Trials in optuna-dashboard: parameters as they are typed."""

import optuna
import pytest
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.storages import BaseStorage, InMemoryStorage

from tuner.study.space.space import Space
from tuner.study.watching.typed_trials import with_typed_trials
from tuner.trial.messages import JsonDict

CONFIG: JsonDict = {
    "agent": {"gamma": 0.99, "kind": "a"},
    "buffer": {"batch_size": 64, "num_steps": 128, "share": 32},
    "optimizer": {"learning_rate": 1e-3},
}
SPACE = Space.from_config(
    {
        "agent": {"gamma": {"low": 0.9, "high": 0.999, "transform": "one_minus"}, "kind": {"choices": ["a", "b"]}},
        "buffer": {
            "batch_size": {"low": 32, "high": 256, "transform": "power_of_two"},
            "share": {"low": 0.125, "high": 1, "transform": "power_of_two", "of": "buffer.num_steps"},
        },
        "optimizer": {"learning_rate": {"low": 1e-5, "high": 1e-2, "log": True}},
    },
    CONFIG,
)


def shown_of(inner: BaseStorage, *, space: Space | None = SPACE) -> optuna.Study:
    """A study of three trials, as the dashboard opens it."""
    study = optuna.create_study(storage=inner, study_name="s", direction="maximize")
    if space is not None:
        study.set_user_attr("definition", {"space": {one.name: one.describe() for one in space.parameters}})
    for value, exponent in enumerate((6, 5, 8)):
        trial = study.ask(SPACE.distributions())
        drawn = {**trial.params, "log2(buffer.batch_size)": exponent}
        for path, typed in SPACE.values({**drawn}, CONFIG).items():
            trial.set_user_attr(path, typed)
        study.tell(trial, float(value))
    return optuna.load_study(storage=with_typed_trials(inner), study_name="s")


def test_parameters_have_the_names_and_values_that_are_typed() -> None:
    study = shown_of(InMemoryStorage())
    paths = ["agent.gamma", "agent.kind", "buffer.batch_size", "buffer.share", "optimizer.learning_rate"]
    for trial in study.trials:
        assert sorted(trial.params) == sorted(trial.distributions) == paths
        assert all(trial.params[path] == trial.user_attrs[path] for path in paths)
    assert [trial.params["buffer.batch_size"] for trial in study.trials] == [64, 32, 256]
    assert study.best_params["buffer.batch_size"] == 256
    distributions = study.trials[0].distributions
    assert distributions["agent.gamma"] == FloatDistribution(0.9, 0.999)
    assert distributions["buffer.batch_size"] == IntDistribution(32, 256, log=True)
    assert distributions["optimizer.learning_rate"] == FloatDistribution(1e-5, 1e-2, log=True)
    assert distributions["agent.kind"] == CategoricalDistribution(("a", "b"))
    shares = [trial.params["buffer.share"] for trial in study.trials]
    assert distributions["buffer.share"] == IntDistribution(min(shares), max(shares), log=True)


def test_importances_are_of_the_parameters_as_typed() -> None:
    assert set(optuna.importance.get_param_importances(shown_of(InMemoryStorage()))) == {
        *("agent.gamma", "agent.kind", "buffer.batch_size", "buffer.share", "optimizer.learning_rate")
    }


def test_what_is_stored_stays_and_is_what_a_renamed_study_gets() -> None:
    inner = InMemoryStorage()
    study = shown_of(inner)
    copied = optuna.create_study(storage=study._storage, study_name="renamed", direction="maximize")
    copied.add_trials(study.get_trials(deepcopy=False))
    before, after = (optuna.load_study(storage=inner, study_name=name).trials for name in ("s", "renamed"))
    assert "1-agent.gamma" in before[0].params
    assert [trial.params for trial in after] == [trial.params for trial in before]
    assert [trial.distributions for trial in after] == [trial.distributions for trial in before]


@pytest.mark.parametrize("definition", [None, {}, {"space": "odd"}, "odd"])
def test_studies_of_others_are_shown_as_they_are(definition: object) -> None:
    inner = InMemoryStorage()
    study = shown_of(inner, space=None)
    optuna.load_study(storage=inner, study_name="s").set_user_attr("definition", definition)
    assert study.trials[0].params == optuna.load_study(storage=inner, study_name="s").trials[0].params


def test_a_trial_that_has_no_values_yet_shows_those_of_its_draws() -> None:
    inner = InMemoryStorage()
    study = shown_of(inner)
    trial = optuna.load_study(storage=inner, study_name="s").ask(SPACE.distributions())
    shown = study.trials[3]
    assert shown.params["agent.gamma"] == pytest.approx(1.0 - trial.params["1-agent.gamma"])
    assert shown.params["buffer.batch_size"] == 2 ** trial.params["log2(buffer.batch_size)"]


@pytest.mark.parametrize("odd", [[1], {"a": 1}, float("nan"), "x", None])
def test_an_attribute_that_is_no_number_gives_way_to_what_was_drawn(odd: object) -> None:
    inner = InMemoryStorage()
    study = shown_of(inner)
    trial = optuna.load_study(storage=inner, study_name="s").ask(SPACE.distributions())
    for path in ("agent.gamma", "buffer.share"):
        trial.set_user_attr(path, odd)
    shown = study.trials[3]
    assert shown.params["agent.gamma"] == pytest.approx(1.0 - trial.params["1-agent.gamma"])
    assert "buffer.share" not in shown.params, "a share of what is not known"
    (stored,) = (name for name in trial.params if "buffer.share" in name)
    assert shown.params[stored] == trial.params[stored]
