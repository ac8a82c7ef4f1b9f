"""Environments small enough to know every number in advance."""

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces


class Counting(gymnasium.Env[np.ndarray, int]):
    """Shows the number of the step, and ends after `length` steps by the task or by the clock.

    The observation is (step, episode seed modulo 1000); the reward is the step number.
    """

    def __init__(self, length: int = 3, by_time: bool = False) -> None:
        self.observation_space = spaces.Box(-np.inf, np.inf, (2,), np.float32)
        self.action_space = spaces.Discrete(2)
        self.length = length
        self.by_time = by_time
        self.step_number = 0
        self.mark = 0.0
        self.actions: list[int] = []
        self.seeds: list[int | None] = []

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(seed=seed)
        self.seeds.append(seed)
        self.mark = float((seed or 0) % 1000)
        self.step_number = 0
        return self._observation(), {}

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        self.actions.append(action)
        self.step_number += 1
        over = self.step_number >= self.length
        return self._observation(), float(self.step_number), over and not self.by_time, over and self.by_time, {}

    def _observation(self) -> np.ndarray:
        return np.array([self.step_number, self.mark], np.float32)


class Corridor(gymnasium.Env[np.ndarray, int]):
    """A corridor of five cells: going right (action 1) leads to a reward of 1 at the end, left ends with 0."""

    def __init__(self) -> None:
        self.observation_space = spaces.Box(0.0, 1.0, (5,), np.float32)
        self.action_space = spaces.Discrete(2)
        self.cell = 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(seed=seed)
        self.cell = 1
        return self._observation(), {}

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        self.cell += 1 if action == 1 else -1
        reached, left = self.cell == 4, self.cell == 0
        return self._observation(), float(reached), reached or left, False, {}

    def _observation(self) -> np.ndarray:
        return np.eye(5, dtype=np.float32)[self.cell]
