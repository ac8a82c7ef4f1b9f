"""Environments of one process share arrays and spaces without harm."""

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from note_rl.environments import VectorEnvironment
from tests.note_rl.environments.odd_environments import Plain

ONE_ARRAY = np.zeros(3, np.float32)

ONE_INFO = {"action_mask": np.zeros(3, np.int8)}


class OneArrayForAll(Plain):
    """All environments show their number in one array, and allow the action of that number in one dictionary."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.action_space = spaces.Discrete(3)
        self.number = number

    def answer(self) -> Any:
        ONE_ARRAY[:] = self.number / 10
        ONE_INFO["action_mask"][:] = np.arange(3) == self.number
        return ONE_ARRAY, ONE_INFO

    def reset(self, **arguments: Any) -> Any:
        super().reset(**arguments)
        return self.answer()

    def step(self, action: Any) -> Any:
        _, *others, _ = super().step(action)
        obs, info = self.answer()
        return obs, *others, info


def test_what_environments_share_is_read_before_the_next_one_writes_to_it() -> None:
    envs = VectorEnvironment([OneArrayForAll(number) for number in range(3)], seed=0)
    expected = np.repeat(np.float32([[0.0], [0.1], [0.2]]), 3, axis=1)
    for _ in range(12):  # over the end of an episode
        np.testing.assert_array_equal(envs.obs, expected)
        np.testing.assert_array_equal(envs.action_mask, np.eye(3, dtype=bool))
        _, _, next_obs, *_ = envs.step(np.arange(3))
        np.testing.assert_array_equal(next_obs, expected)
        np.testing.assert_array_equal(envs.next_action_mask, np.eye(3, dtype=bool))


def test_a_space_may_be_that_of_a_wrapper_alone() -> None:
    env = Plain()
    wrapped = gymnasium.wrappers.TransformAction(env, lambda action: action, spaces.Discrete(2))
    del env.action_space
    envs = VectorEnvironment([wrapped], seed=0)
    for _ in range(12):
        envs.step(np.zeros(1, np.int64))
