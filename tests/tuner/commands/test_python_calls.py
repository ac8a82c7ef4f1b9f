"""Arguments of `tuner.tune` in Python: the overrides that they stand for, and refusals."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hydra.core.override_parser.overrides_parser import OverridesParser

from tuner.commands.python_calls import as_typed
from tuner.errors import UserError

SPACE = {"rate": (0.1, 1.0)}


def a_function(seed: int, rate: float = 0.5, units: int = 8) -> float:
    """A function to tune from Python."""
    return rate * units


def without_defaults(seed: int, rate: float) -> float:
    """The same, with nothing to compare with."""
    return rate


def with_names_of_the_study(total_steps: int = 3, name: str = "a", env: str = "CartPole-v1", rate: float = 0.5) -> None:
    """Arguments that a study has, too."""


def with_a_budget(total_steps: int, rate: float = 0.5) -> None:
    """The same, without a value."""


def open_for_all(**settings: Any) -> None:
    """Takes whatever there is."""


class Thing:
    """Nothing that can be typed."""

    def __repr__(self) -> str:
        return "<a thing>"


def test_a_function_and_a_class_are_what_would_be_typed() -> None:
    typed = as_typed(a_function, {"rate": (0.1, 1.0), "units": [8, 16]}, {"num_trials": 4}, ["executor=inline"])
    assert typed == [
        "agent=function",
        f"agent._target_={__name__}.a_function",
        "study.num_trials=4",
        "+agent.rate=0.5",
        "+agent.units=8",
        "space=none",
        "+space.agent.rate={low:0.1,high:1.0}",
        "+space.agent.units={choices:[8,16]}",
        "executor=inline",
    ]


def test_a_value_of_a_class_that_is_searched_too_is_the_default_to_compare_with() -> None:
    sb3 = pytest.importorskip("stable_baselines3")
    typed = as_typed(sb3.PPO, {"n_steps": [128, 256]}, {"env": "CartPole-v1", "n_steps": 256, "gamma": 0.9}, [])
    assert typed[2:4] == ["++agent.n_steps=256", "++agent.gamma=0.9"]
    assert typed[-1].startswith("+space.agent.n_steps=")


def test_an_environment_is_the_argument_of_a_function_that_has_one() -> None:
    typed = as_typed(with_names_of_the_study, SPACE, {"env": "Acrobot-v1", "num_trials": 3}, [])
    assert typed[2:5] == ["study.num_trials=3", "+agent.env=Acrobot-v1", "+agent.rate=0.5"]
    assert "+agent.num_envs=4" in as_typed(open_for_all, SPACE, {"num_envs": 4, "rate": 0.2}, [])


def test_also_says_whose_an_argument_is() -> None:
    typed = as_typed(with_a_budget, SPACE, {}, ["+agent.total_steps=7", "training.total_steps=9"])
    assert typed[-2:] == ["+agent.total_steps=7", "training.total_steps=9"]


def test_numbers_of_numpy_and_paths_are_numbers_and_texts() -> None:
    space = {"rate": (np.float64(0.125), np.float32(1.0)), "units": np.array([8, 16])}
    settings = {"num_trials": np.int64(4), "folder": Path("some/where"), "rate": np.float32(0.5)}
    typed = as_typed(a_function, space, settings, [])
    read = {one.key_or_group: one.value() for one in OverridesParser.create().parse_overrides(typed)}
    assert read["study.num_trials"] == 4
    assert read["study.folder"] == "some/where"
    assert read["agent.rate"] == 0.5
    assert read["space.agent.rate"] == {"low": 0.125, "high": 1.0}
    assert read["space.agent.units"] == {"choices": [8, 16]}


@pytest.mark.parametrize(
    ("function", "space", "settings", "message"),
    [
        (a_function, None, {}, "space is missing"),
        (a_function, {"rate": (0.1,)}, {}, r"a pair is \(low, high\)"),
        (a_function, {"rate": ("a", "b")}, {}, "a pair is .*two numbers; write choices as a list"),
        (a_function, {"rate": 0.1}, {}, "give a pair"),
        (a_function, SPACE, {"env": "CartPole-v1"}, "a function makes its environment itself, and a_function has no"),
        (a_function, SPACE, {"num_trails": 3}, "a_function has no argument num_trails; did you mean num_trials"),
        (a_function, {"rat": (0.1, 1.0)}, {}, "space={'rat': ...}: a_function has no argument rat; did you mean rate"),
        (without_defaults, SPACE, {}, "space has rate, which has no value to compare with"),
        (with_a_budget, SPACE, {}, "with_a_budget needs total_steps, which has no default"),
        (
            with_names_of_the_study,
            SPACE,
            {"total_steps": 5},
            r"total_steps=5 may be an argument of .* type it in also=, as '\+agent.total_steps=5' for .* or "
            "'training.total_steps=5' for the study",
        ),
        (with_names_of_the_study, SPACE, {"name": "x"}, r"'\+agent.name=x' .* 'study.name=x'"),
        (a_function, SPACE, {"units": Thing()}, r"units=<a thing>: a Thing cannot be handed to a trial"),
        (a_function, {"rate": [1, Thing()]}, {}, r"space={'rate': <a thing>: a Thing cannot be handed to a trial"),
        (a_function, SPACE, {"env": Thing()}, "env= takes the id of an environment as a text"),
        (max, SPACE, {}, "max has no signature, .* write a function of a module that calls it"),
        (3, SPACE, {}, r"takes a function, a class, or a list .* such as \['agent=ppo'\], not 3 \(int\)"),
        (lambda seed: 0.0, SPACE, {"rate": 0.1}, "has no name by which another process finds it"),
    ],
)
def test_what_cannot_be_tuned_from_python_is_refused(
    function: Any, space: Any, settings: dict[str, Any], message: str
) -> None:
    with pytest.raises(UserError, match=message):
        as_typed(function, space, settings, [])


def test_a_text_in_place_of_a_list_is_refused() -> None:
    with pytest.raises(UserError, match=r"also='executor=inline' must be a list"):
        as_typed(a_function, SPACE, {}, "executor=inline")


class Trainer:
    """A trainer with a state."""

    def train(self, seed: int, rate: float = 0.5) -> float:
        """The score."""
        return rate


def test_a_method_of_an_object_is_refused() -> None:
    with pytest.raises(UserError, match=r"Trainer.train is a method of an object, and a trial, a process of its own"):
        as_typed(Trainer().train, SPACE, {}, [])


def test_a_class_of_pytorch_is_a_name_only_where_names_are_chosen() -> None:
    sb3, nn = pytest.importorskip("stable_baselines3"), pytest.importorskip("torch.nn")
    given = {"activation_fn": nn.Tanh, "features_extractor_kwargs": {"act": nn.Mish}}
    word = as_typed(sb3.PPO, None, {"policy_kwargs": given}, [])[-1]
    mish = "{_target_:hydra.utils.get_class,path:torch.nn.modules.activation.Mish}"
    assert word == f"++agent.policy_kwargs={{activation_fn:Tanh,features_extractor_kwargs:{{act:{mish}}}}}"
