"""Ways in which an environment is stepped, and what is collected in it."""

from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from note_rl.collect.collector import Collector
from note_rl.collect.evaluation import Greedy
from note_rl.environments import Environments, VectorEnvironment, flat_observations
from note_rl.environments.gymnasium_vector import foreign_environments
from note_rl.policy import EpsGreedyQPolicy, NoisyPolicy


def first(space: Any) -> Greedy:
    return Greedy(lambda obs: np.tile(np.float32([1.0, 0.0]), (len(obs), 1)), None, space)


Make = Callable[[], gymnasium.Env[Any, Any]]


def alone(make: Make) -> Environments:
    return VectorEnvironment([flat_observations(make()) for _ in range(2)], seed=0)


def wrapped(make: Make) -> Environments:
    return alone(lambda: gymnasium.wrappers.TimeLimit(gymnasium.wrappers.OrderEnforcing(make()), 10))


def vector(mode: AutoresetMode) -> Callable[[Make], Environments]:
    return lambda make: foreign_environments(SyncVectorEnv([make] * 2, autoreset_mode=mode), seed=0)


WAYS = {"alone": alone, "wrapped": wrapped, **{mode.name: vector(mode) for mode in AutoresetMode}}

each_way = pytest.mark.parametrize("way", WAYS.values(), ids=WAYS.keys())


def collected(envs: Environments, answer: Any, num_steps: int = 24) -> Any:
    """Steps [T, 2] with the same answer to everything."""
    policy = NoisyPolicy() if isinstance(envs.action_space, spaces.Box) else EpsGreedyQPolicy(0.0)
    collector = Collector(envs, policy, np.random.default_rng(0))
    answers = np.array([answer, answer], np.float32)
    return collector.collect(lambda obs: answers, num_steps)
