"""`custom_search_space` and `search_space`, as configurations for hydra-optuna-sweeper have them."""

from pathlib import Path
from typing import Any

import optuna
import pytest
import yaml
from omegaconf import DictConfig, OmegaConf

from tests.tuner.sweeper.test_plain_app import App
from tuner.errors import UserError
from tuner.sweeper.custom_search_space import CustomSearchSpace, as_params
from tuner.sweeper.grammar import parse_sweep

SPACE = """
def near(config, trial):
    trial.suggest_float("seconds", trial.params["x"] / 1e6, trial.params["x"] / 1e6 + config.steps * 1e-9)
    trial.suggest_int("+more", 1, 3)
"""
SWEEP = (
    *("-m", "hydra/sweeper=optuna", "hydra.sweeper.direction=minimize", "hydra.sweeper.sampler.seed=1"),
    *("+executor@hydra.sweeper.executor=inline", "hydra.sweeper.report=false", "accidents=false", "steps=1"),
    *("hydra.sweeper.study_name=own", "hydra/sweeper/sampler=random"),
)
CUSTOM = "hydra.sweeper.custom_search_space=spaces.near"


@pytest.fixture
def app(tmp_path: Path) -> App:
    (tmp_path / "spaces.py").write_text(SPACE)
    return App(tmp_path)


def test_a_function_adds_parameters_whose_ranges_follow_what_was_drawn(app: App) -> None:
    app(*SWEEP, CUSTOM, "x=choice(1,2)", "hydra.sweeper.n_trials=4")
    jobs = app.study("own").trials
    assert len(jobs) == 4, "not once for each choice: there are more combinations than these"
    for job in jobs:
        values = job.user_attrs["run"]["values"]
        assert set(values) == {"x", "seconds", "+more"}
        assert values["x"] / 1e6 <= values["seconds"] <= values["x"] / 1e6 + 1e-9
        config = yaml.safe_load((app.sweep_folder / str(job.number) / ".hydra" / "config.yaml").read_text())
        assert (config["seconds"], config["more"]) == (values["seconds"], values["+more"])
    found = yaml.safe_load((app.sweep_folder / "optimization_results.yaml").read_text())
    assert set(found["best_params"]) == {"x", "seconds", "+more"}
    assert not (app.sweep_folder / "report.html").exists(), "it is switched off"


def test_what_is_wrong_with_the_function_ends_the_sweep_with_its_name(app: App) -> None:
    again = app(*SWEEP, CUSTOM, "seconds=0", "x=choice(1,2)", status=1)
    assert "seconds=0 is set, and spaces.near of hydra.sweeper.custom_search_space suggests seconds" in again
    (app.folder / "spaces.py").write_text("def near(config, trial):\n    trial.suggest_float('x', 0, 1)\n")
    searched = app(*SWEEP, CUSTOM, "x=choice(1,2)", "hydra.sweeper.study_name=two", status=1)
    assert "suggests x, which hydra.sweeper.params or the command line searches already" in searched


def test_nothing_searched_runs_the_job_as_often_as_asked(app: App) -> None:
    app(*SWEEP, "hydra.sweeper.n_trials=3")
    assert [job.user_attrs["run"]["values"] for job in app.study("own").trials] == [{}, {}, {}]
    assert "nothing is searched" in app(*SWEEP, "hydra.sweeper.study_name=two", status=1)


def _trial() -> optuna.Trial:
    return optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0)).ask()


def test_the_function_gets_the_trial_with_the_values_of_the_job() -> None:
    def space(config: DictConfig, trial: Any) -> None:
        assert (trial.params, trial.number, config.a) == ({"x": 5}, 0, 1)
        trial.set_user_attr("mine", 1)
        assert 2 <= trial.suggest_int("+y", 2, 4) <= 4
        assert trial.params == {"x": 5, "+y": trial.params["+y"]}

    trial = _trial()
    added = CustomSearchSpace("my.space", space).added(OmegaConf.create({"a": 1}), trial, {"x": 5})
    assert added == {"+y": trial.params["+y"]}
    assert trial.user_attrs == {"mine": 1}


def test_an_error_of_the_function_names_it_and_the_job() -> None:
    def space(config: DictConfig, trial: Any) -> None:
        raise KeyError("z")

    with pytest.raises(UserError, match=r"custom_search_space=my.space failed for job 0: KeyError\('z'\)"):
        CustomSearchSpace("my.space", space).added(OmegaConf.create({}), _trial(), {})


@pytest.mark.parametrize(
    ("node", "values"),
    [
        ({"type": "categorical", "choices": ["a", "b c", 1]}, ["a", "b c", 1]),
        ({"type": "int", "low": 1, "high": 3}, [1, 2, 3]),
        ({"type": "int", "low": 1, "high": 6, "step": 2}, [1, 3, 5]),
        ({"type": "int", "low": 1, "high": 7, "step": 3}, [1, 4, 7]),
        ({"type": "int", "low": 1, "high": 6, "step": 3}, [1, 4]),
        ({"type": "int", "low": 0, "high": 9, "step": 5}, [0, 5]),
        ({"type": "float", "low": 0.5, "high": 2.5, "step": 1}, [0.5, 1.5, 2.5]),
        ({"type": "float", "low": 0, "high": 1, "step": 0.3}, [0.0, 0.3, 0.6, 0.9]),
        ({"type": "float", "low": 0, "high": 1}, None),
    ],
)
def test_the_older_form_searches_the_same_values(node: dict[str, Any], values: list[Any] | None) -> None:
    space = parse_sweep(as_params({"x": node}), ())
    (parameter,) = space.space.parameters
    points = space.grid()[parameter.name]
    found = points if points is None else [parameter.value(point, {}) for point in points]
    assert found == values
    assert values is None or [type(one) for one in found or ()] == [type(one) for one in values]


def test_logarithmic_scales_of_the_older_form() -> None:
    assert as_params(
        {
            "x": {"type": "float", "low": 0.1, "high": 1, "log": True},
            "n": {"type": "int", "low": 1, "high": 8, "log": True},
        }
    ) == {
        "x": "tag(log,interval(0.1,1.0))",
        "n": "tag(log,int(interval(1,8)))",
    }


@pytest.mark.parametrize(
    ("node", "why"),
    [
        ({"type": "categorical", "choices": "abc"}, r"search_space\.x\.choices=abc must be a list"),
        ({"type": "categorical", "choices": []}, "must be a list"),
        ({"type": "int", "low": 2, "high": 8, "log": True, "step": 2}, "both log and step=2"),
        ({"type": "int", "low": 2, "high": 8, "step": 1.5}, "step=1.5 must be a whole number"),
    ],
)
def test_what_the_older_form_cannot_mean_is_refused(node: dict[str, Any], why: str) -> None:
    with pytest.raises(UserError, match=why):
        as_params({"x": node})
