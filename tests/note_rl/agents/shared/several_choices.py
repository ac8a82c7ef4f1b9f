"""Spaces of several choices, and agents that act in them."""

import gymnasium
import numpy as np
from gymnasium import spaces


class Locks(gymnasium.Env[np.ndarray, np.ndarray]):
    """Two dials (2 and 3 places, counted from 5) or three switches; the reward is the share that is as is shown."""

    def __init__(self, action_space: spaces.Space) -> None:
        self.action_space = action_space
        self.observation_space = spaces.Box(0.0, 1.0, (4,), np.float32)
        self.actions: list[np.ndarray] = []

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.state, self.left = int(self.np_random.integers(4)), 8
        return np.eye(4, dtype=np.float32)[self.state], {}

    def step(self, action):
        assert self.action_space.contains(np.asarray(action)), action
        self.actions.append(np.array(action))
        reward = float(np.mean(np.asarray(action) == self.wanted()))
        self.state, self.left = int(self.np_random.integers(4)), self.left - 1
        return np.eye(4, dtype=np.float32)[self.state], reward, False, self.left == 0, {}

    def wanted(self) -> np.ndarray:
        if isinstance(self.action_space, spaces.MultiBinary):
            return np.array([self.state % 2, self.state // 2, 1])
        return self.action_space.start + np.array([self.state % 2, self.state % 3])


def dials() -> Locks:
    return Locks(spaces.MultiDiscrete([2, 3], start=[5, 5]))
