"""An environment whose observations are dictionaries."""

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces


class Signs(gymnasium.Env[dict[str, Any], Any]):
    """Shows an image whose left or right half is bright, and a sign; the right one of four actions depends on both.

    With numbers, the four are -1, -1/3, 1/3 and 1, and what is away from the right one is lost.
    """

    def __init__(self, numbers: bool = False) -> None:
        self._numbers = numbers
        self.observation_space = spaces.Dict(
            {"image": spaces.Box(0, 255, (6, 6, 1), np.uint8), "sign": spaces.Box(-1.0, 1.0, (1,), np.float32)}
        )
        self.action_space: spaces.Space[Any] = spaces.Box(-1.0, 1.0, (1,)) if numbers else spaces.Discrete(4)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[dict[str, Any], dict[str, Any]]:
        super().reset(seed=seed)
        self.left = 8
        return self._next(), {}

    def step(self, action: Any) -> tuple[dict[str, Any], float, bool, bool, dict[str, Any]]:
        self.left -= 1
        reward = (
            1.0 - abs(float(action[0]) - self.wanted / 1.5 + 1.0) if self._numbers else float(action == self.wanted)
        )
        return self._next(), reward, False, self.left == 0, {}

    def _next(self) -> dict[str, Any]:
        self.wanted = int(self.np_random.integers(4))
        image = np.zeros((6, 6, 1), np.uint8)
        image[:, 3 * (self.wanted // 2) : 3 * (self.wanted // 2) + 3] = 255
        return {"image": image, "sign": np.array([2.0 * (self.wanted % 2) - 1.0], np.float32)}


gymnasium.register("NoteRLSigns-v0", Signs)
gymnasium.register("NoteRLSignsOfNumbers-v0", Signs, kwargs={"numbers": True})
