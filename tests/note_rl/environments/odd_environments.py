"""Environments that do in one respect what few others do."""

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces


class Plain(gymnasium.Env[Any, Any]):
    """Ten steps with a reward of 1 each; shows a tenth of the number of the step, three times."""

    metadata = {"render_modes": []}  # noqa: RUF012
    length = 10

    def __init__(self) -> None:
        self.observation_space: Any = spaces.Box(-1, 1, (3,), np.float32)
        self.action_space: Any = spaces.Discrete(2)
        self.t = 0

    def shown(self) -> Any:
        return np.full(3, self.t / 10, np.float32)

    def reward(self) -> Any:
        return 1.0

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.t = 0
        return self.shown(), {}

    def step(self, action: Any) -> Any:
        self.t += 1
        return self.shown(), self.reward(), self.t >= self.length, False, {}


class WholeAtFirst(Plain):
    """Whole numbers at the beginning of an episode, though the space is of fractions."""

    def shown(self) -> Any:
        return super().shown() if self.t else np.zeros(3, np.int64)


class InPlace(Plain):
    """Multiplies the action that it is given, in place; the reward is what came of it."""

    def __init__(self) -> None:
        super().__init__()
        self.action_space = spaces.Box(-1, 1, (2,), np.float32)

    def step(self, action: Any) -> Any:
        action *= 100.0
        obs, _, *others = super().step(action)
        return obs, float(action[0]), *others


class WholeActions(Plain):
    """The reward is the first number of the action, and -1,000 for one that is not in the space."""

    def __init__(self) -> None:
        super().__init__()
        self.action_space = spaces.Box(-2, 10, (2,), np.int16)

    def step(self, action: Any) -> Any:
        obs, _, *others = super().step(action)
        return obs, float(action[0]) if self.action_space.contains(action) else -1000.0, *others


class OneFixed(Plain):
    """The first of the two numbers of an action can only be 0."""

    def __init__(self) -> None:
        super().__init__()
        self.action_space = spaces.Box(np.array([0, -1], np.float32), np.array([0, 1], np.float32))


class SingleNumber(Plain):
    """Shows one number that stands in no array."""

    def __init__(self) -> None:
        super().__init__()
        self.observation_space = spaces.Box(0, 1, (), np.float32)

    def shown(self) -> Any:
        return np.float32(self.t / 10)


class Spoiled(Plain):
    """The seventh observation holds what is no finite number."""

    def __init__(self, number: float = np.nan) -> None:
        super().__init__()
        self.number = number

    def shown(self) -> Any:
        return np.array([0.5, self.number if self.t == 7 else self.t / 10, 0.5], np.float32)


class Endless(Plain):
    """Never ends."""

    length = 10**9

    def shown(self) -> Any:
        return np.full(3, self.t % 10 / 10, np.float32)
