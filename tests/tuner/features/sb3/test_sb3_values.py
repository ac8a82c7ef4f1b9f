"""Values of arguments of Stable-Baselines3's classes, by annotation and range."""

from typing import Any

import pytest

from tuner.errors import UserError
from tuner.features.sb3.sb3_algorithms import find
from tuner.features.sb3.sb3_values import check_sizes, check_value


@pytest.mark.parametrize(
    ("name", "setting", "message"),
    [
        ("PPO", {"gamma": 2}, "agent.gamma=2 is not possible: it must lie between 0 and 1"),
        ("TRPO", {"gae_lambda": -0.5}, "agent.gae_lambda=-0.5 is not possible: it must lie between 0 and 1"),
        ("SAC", {"tau": -1}, "agent.tau=-1 is not possible: it must be above 0 and at most 1"),
        ("ARS", {"learning_rate": 0.0}, "agent.learning_rate=0.0 is not possible: it must be above 0"),
        ("DQN", {"batch_size": 0}, "agent.batch_size=0 is not possible: it must be at least 1"),
        ("A2C", {"n_steps": 0}, "agent.n_steps=0 is not possible: it must be at least 1"),
        ("PPO", {"n_epochs": 0}, "agent.n_epochs=0 is not possible: it must be at least 1"),
        ("PPO", {"clip_range": -1}, "agent.clip_range=-1 is not possible: it must be above 0"),
        ("SAC", {"gradient_steps": 0}, "agent.gradient_steps=0 must be at least 1, or -1: as many as there were"),
        ("TD3", {"policy_delay": 0}, "agent.policy_delay=0 is not possible: it must be at least 1"),
        ("DQN", {"buffer_size": 0}, "agent.buffer_size=0 is not possible: it must be at least 1"),
        ("DQN", {"exploration_fraction": -0.1}, "agent.exploration_fraction=-0.1 is not possible: it must lie between"),
        (
            "PPO",
            {"learning_rate": "lin_1e-3"},
            r"agent.learning_rate=lin_1e-3 is .* typed agent.learning_rate=1e-3 agent.linear=\[learning_rate\]",
        ),
        ("PPO", {"gamma": "lin_0.9"}, "agent.gamma=lin_0.9 must be a number"),
        ("PPO", {"learning_rate": None}, "agent.learning_rate=null must be a number"),
        ("PPO", {"clip_range_vf": [1]}, r"agent.clip_range_vf=\[1\] must be a number or null"),
        ("PPO", {"normalize_advantage": 1}, "agent.normalize_advantage=1 must be true or false"),
        ("SAC", {"ent_coef": "much"}, "agent.ent_coef=much must be a number or auto"),
        ("SAC", {"train_freq": [1, "epsode"]}, r"agent.train_freq=.* must be a whole number .* such as \[1,episode\]"),
        ("SAC", {"train_freq": "episode"}, "agent.train_freq=episode must be a whole number"),
        ("SAC", {"train_freq": 0}, "agent.train_freq=0 must be a whole number of steps, at least 1"),
    ],
)
def test_a_value_that_the_class_could_not_take_is_refused(name: str, setting: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        find(name).checked(setting)


def test_values_become_what_the_class_takes() -> None:
    given = {"train_freq": [2.0, "episode"], "ent_coef": "auto_0.1", "target_entropy": -2, "batch_size": 64.0}
    checked = find("SAC").checked(given)
    assert checked == {"train_freq": (2, "episode"), "ent_coef": "auto_0.1", "target_entropy": -2.0, "batch_size": 64}
    assert type(checked["train_freq"]) is tuple
    assert find("SAC").checked({"gradient_steps": -1}) == {"gradient_steps": -1}
    assert find("PPO").checked({"ent_coef": -0.01}) == {"ent_coef": -0.01}, "less entropy may be wanted"
    assert find("MaskablePPO").checked({"batch_size": None, "gamma": 1}) == {"batch_size": None, "gamma": 1.0}


def test_what_has_no_annotation_may_be_anything() -> None:
    assert check_value("agent.policy_kwargs.whatever", {"a": "b"}, None) == {"a": "b"}


@pytest.mark.parametrize("sizes", ["abc", 64, [64, 0], [8.5], {"pi": [8]}, {"pi": [8], "vf": [8]}, {}, [[8]]])
def test_sizes_of_layers_are_whole_numbers(sizes: Any) -> None:
    with pytest.raises(UserError, match=r"agent.net_arch=.* such as \[64,64\], or \{pi: \[64,64\], qf: \[64,64\]\}"):
        check_sizes("agent.net_arch", sizes, ("pi", "qf"), needs_all=True)


def test_sizes_of_layers_are_those_of_each_network_or_of_all() -> None:
    assert check_sizes("agent.net_arch", [64.0, 32], (), needs_all=False) == [64, 32]
    assert check_sizes("agent.net_arch", {"vf": [8]}, ("pi", "vf"), needs_all=False) == {"vf": [8]}
    with pytest.raises(UserError, match=r"such as \[64,64\]$"):
        check_sizes("agent.net_arch", {"pi": [8]}, (), needs_all=False)
