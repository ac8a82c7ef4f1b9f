"""Contents by which the study of a finder is another one."""

import copy
import enum
import functools
import json
from collections import deque
from pathlib import Path
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


def test_the_code_of_a_class_counts_that_has_no_file() -> None:
    text = "class Env:\n    def step(self, reward): return {} * reward\ndef make(): return Env()"
    assert shown(function(text.format(2))) == shown(function(text.format(2)))
    assert shown(function(text.format(2))) != shown(function(text.format(3)))


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


class Level(enum.Enum):
    EASY, HARD = 1, 2


class Slotted:
    __slots__ = ("number",)

    def __init__(self, number: int) -> None:
        self.number = number


class Hidden:
    def __init__(self, number: int) -> None:
        self._number = number


def cells(*values: Any) -> Any:
    first, second = values
    return lambda: (first, second)


def cartpole(gravity: float) -> gym.Env[Any, Any]:
    env = gym.make("CartPole-v1")
    env.unwrapped.gravity = gravity  # type: ignore[attr-defined]
    return gym.wrappers.ClipReward(gym.wrappers.TimeLimit(gym.wrappers.FlattenObservation(env), 9), 0, 1)


PAIRS: dict[str, tuple[Any, Any]] = {
    "partial": tuple(functools.partial(gym.make, "CartPole-v1", max_episode_steps=most) for most in (5, 100)),
    "number": (np.float32(0.1), np.float32(0.2)),
    "array": (np.zeros(2), np.ones(2)),
    "shape": (np.zeros((2, 1)), np.zeros((1, 2))),
    "type": (np.zeros(2, np.float32), np.zeros(1, np.float64)),
    "objects": (np.array([None, 1]), np.array([None, 2])),
    "tensor": (torch.ones(2), torch.zeros(2)),
    "bfloat16": (torch.ones(2, dtype=torch.bfloat16), torch.zeros(2, dtype=torch.bfloat16)),
    "parameter": (torch.nn.Parameter(torch.ones(2)), torch.nn.Parameter(torch.zeros(2))),
    "containers": ({"a": [1, (2,)]}, {"a": [1, (3,)]}),
    "set": ({1, 2}, {1, 3}),
    "bytes": (b"a", b"b"),
    "queue": (deque([1]), deque([2])),
    "path": (Path("a"), Path("b")),
    "enum": (Level.EASY, Level.HARD),
    "slots": (Slotted(1), Slotted(2)),
    "private": (Hidden(1), Hidden(2)),
    "cells": (cells(None, 3), cells(3, None)),
    "limit": (gym.make("CartPole-v1", max_episode_steps=5), gym.make("CartPole-v1", max_episode_steps=100)),
    "wrapped": (cartpole(-30.0), cartpole(9.8)),
}


@pytest.mark.parametrize("name", PAIRS)
def test_values_count(name: str) -> None:
    one, other = PAIRS[name]
    assert shown(one) == shown(copy.deepcopy(one))
    assert shown(one) != shown(other)
    json.dumps([shown(one), shown(other)])


def test_an_environment_that_drew_its_own_seed_is_the_same() -> None:
    used = [gym.make("CartPole-v1") for _ in range(2)]
    for env in used:
        env.reset()
        env.unwrapped.state = None  # type: ignore[attr-defined]
    assert shown(used[0]) == shown(used[1])


def test_a_module_of_one_s_own_may_be_called_as_libraries_are() -> None:
    made = [type("Env", (), {"__module__": "torch_env", "step": lambda self, by=by: by}) for by in (1, 2)]
    assert shown(made[0])["kind"] == "Env"


class Loop:
    """Holds itself, and its method reads a list that holds another one."""

    def __init__(self) -> None:
        self.number, self.own = 3, self

    def read(self) -> Any:
        return LOOPS


LOOPS = [Loop()]


class Cell:
    """Knows all others."""

    def __init__(self) -> None:
        self.others: list[Cell] = []


def test_what_holds_itself_has_an_end() -> None:
    assert shown(Loop()) == shown(Loop())
    json.dumps(shown(Loop()))
    cells = [Cell() for _ in range(100)]
    for cell in cells:
        cell.others = cells
    assert len(json.dumps(shown(cells))) < 20_000
