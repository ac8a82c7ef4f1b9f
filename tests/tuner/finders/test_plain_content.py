"""Contents by which the study of a finder is another one."""

import functools
import json
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch

from tuner.finders.plain_content import shown


def function(text: str) -> Any:
    """A function as of a script with this text."""
    made: dict[str, Any] = {"__name__": "script"}
    exec(text, made)
    return made["make"]


SCALED = """
import gymnasium as gym
SCALE = {scale}

class Scaled(gym.RewardWrapper):
    def reward(self, reward):
        return SCALE * reward

def make():
    return Scaled(gym.make({task!r}))
"""


def test_code_and_what_it_reads_of_its_module_count() -> None:
    one = shown(function(SCALED.format(scale=1, task="CartPole-v1")))
    assert json.loads(json.dumps(one)) == one
    assert shown(function("# a line more\n" + SCALED.format(scale=1, task="CartPole-v1"))) == one
    assert shown(function(SCALED.format(scale=100, task="CartPole-v1"))) != one
    assert shown(function(SCALED.format(scale=1, task="Acrobot-v1"))) != one


def test_what_a_function_closes_over_and_its_defaults_count() -> None:
    def slowed(factor: float) -> Any:
        return lambda progress: progress / factor

    def with_default(factor: float) -> Any:
        def schedule(progress: float, by: float = factor) -> float:
            return progress / by

        return schedule

    for make in (slowed, with_default):
        assert shown(make(2.0)) == shown(make(2.0))
        assert shown(make(2.0)) != shown(make(3.0))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (
            functools.partial(gym.make, "CartPole-v1", max_episode_steps=5),
            functools.partial(gym.make, "CartPole-v1", max_episode_steps=100),
        ),
        (np.float32(0.1), np.float32(0.2)),
        (np.zeros(2), np.ones(2)),
        (torch.ones(2), torch.zeros(2)),
        (torch.nn.Parameter(torch.ones(2)), torch.nn.Parameter(torch.zeros(2))),
        ({"a": [1, (2,)]}, {"a": [1, (3,)]}),
    ],
    ids=["partial", "number", "array", "tensor", "parameter", "containers"],
)
def test_values_count(one: Any, other: Any) -> None:
    assert shown(one) == shown(one)
    assert shown(one) != shown(other)
    json.dumps([shown(one), shown(other)])


class Loop:
    """Holds itself, and its method reads a list that holds another one."""

    def __init__(self) -> None:
        self.number, self.own = 3, self

    def read(self) -> Any:
        return LOOPS


LOOPS = [Loop()]


def test_what_holds_itself_has_an_end() -> None:
    assert shown(Loop()) == shown(Loop())
    json.dumps(shown(Loop()))


def test_environments_that_hold_other_numbers_are_others() -> None:
    one = shown(gym.wrappers.TimeLimit(gym.make("CartPole-v1"), 5))
    assert one == shown(gym.wrappers.TimeLimit(gym.make("CartPole-v1"), 5))
    changed = gym.make("CartPole-v1")
    changed.unwrapped.gravity = -30.0
    assert shown(gym.wrappers.TimeLimit(changed, 5)) != one
