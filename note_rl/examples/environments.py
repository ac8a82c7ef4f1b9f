"""Two small tasks with a goal, whose reward says nothing before it is reached: what hindsight is for.

Importing this module registers them: `env="note_rl.examples.environments:BitFlipping-v0"` makes one by its id, and
imports the module by itself. Both have `compute_reward` and `compute_terminated` for many pairs of goals at once.
"""

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from note_rl.types import Array, BoolArray, FloatArray

Observation = dict[str, Array]


class _Reaching(gymnasium.Env[Any, Any]):
    """A reward of -1 for every step that does not reach the goal, 0 for the one that does, which ends the episode."""

    def _reached(self, achieved: Array, desired: Array) -> BoolArray:
        raise NotImplementedError

    def compute_terminated(self, achieved_goal: Array, desired_goal: Array, info: Any) -> BoolArray:
        """Whether goals [..., G] are reached: [...]."""
        return self._reached(achieved_goal, desired_goal)

    def compute_reward(self, achieved_goal: Array, desired_goal: Array, info: Any) -> FloatArray:
        """0 for goals [..., G] that are reached, else -1: [...]."""
        return np.where(self._reached(achieved_goal, desired_goal), np.float32(0.0), np.float32(-1.0))

    def _shown(self, state: Array, goal: Array) -> Observation:
        return {"observation": state.copy(), "achieved_goal": state.copy(), "desired_goal": goal.copy()}

    def _outcome(self, state: Array, goal: Array) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        reward, reached = self.compute_reward(state, goal, {}), self.compute_terminated(state, goal, {})
        return self._shown(state, goal), float(reward), bool(reached), False, {"is_success": bool(reached)}


class BitFlipping(_Reaching):
    """n bits, of which each action flips one, and n others to be matched (Andrychowicz et al. 2017, section 3.1).

    An explorer that does not know what it is looking for reaches the goal once in 2^n.

    Args:
        num_bits: n.
    """

    def __init__(self, num_bits: int = 15) -> None:
        bits = spaces.Box(0.0, 1.0, (num_bits,), np.float32)
        self.observation_space = spaces.Dict({"observation": bits, "achieved_goal": bits, "desired_goal": bits})
        self.action_space = spaces.Discrete(num_bits)
        self._bits = np.zeros(num_bits, np.float32)
        self._goal = np.zeros(num_bits, np.float32)

    def _reached(self, achieved: Array, desired: Array) -> BoolArray:
        reached: BoolArray = (achieved == desired).all(axis=-1)
        return reached

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Observation, dict[str, Any]]:
        """New bits and a new goal, which differ."""
        super().reset(seed=seed)
        self._bits = self.np_random.integers(2, size=len(self._bits)).astype(np.float32)
        self._goal = self._bits
        while self._reached(self._bits, self._goal):
            self._goal = self.np_random.integers(2, size=len(self._bits)).astype(np.float32)
        return self._shown(self._bits, self._goal), {}

    def step(self, action: int) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Flips one bit."""
        self._bits[action] = 1.0 - self._bits[action]
        return self._outcome(self._bits, self._goal)


class PointReach(_Reaching):
    """A point in the square [-1, 1] x [-1, 1] that is to be moved to another.

    Args:
        reach: Distance from the goal that counts as there.
        speed: Way of one step along each axis for an action of 1.
    """

    def __init__(self, reach: float = 0.1, speed: float = 0.2) -> None:
        place = spaces.Box(-1.0, 1.0, (2,), np.float32)
        self.observation_space = spaces.Dict({"observation": place, "achieved_goal": place, "desired_goal": place})
        self.action_space = spaces.Box(-1.0, 1.0, (2,), np.float32)
        self.reach = reach
        self.speed = speed
        self._place = np.zeros(2, np.float32)
        self._goal = np.zeros(2, np.float32)

    def _reached(self, achieved: Array, desired: Array) -> BoolArray:
        reached: BoolArray = np.linalg.norm(achieved - desired, axis=-1) <= self.reach
        return reached

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Observation, dict[str, Any]]:
        """A new start and a new goal, out of reach of each other."""
        super().reset(seed=seed)
        self._place = self.np_random.uniform(-1.0, 1.0, 2).astype(np.float32)
        self._goal = self._place
        while self._reached(self._place, self._goal):
            self._goal = self.np_random.uniform(-1.0, 1.0, 2).astype(np.float32)
        return self._shown(self._place, self._goal), {}

    def step(self, action: Array) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Moves the point, up to the edge of the square."""
        move = np.clip(np.asarray(action, np.float32), -1.0, 1.0) * self.speed
        self._place = np.clip(self._place + move, -1.0, 1.0).astype(np.float32)
        return self._outcome(self._place, self._goal)


for _bits in (8, 15):  # as many steps as there are bits suffice
    _name = "BitFlipping-v0" if _bits == 15 else f"BitFlipping{_bits}-v0"
    gymnasium.register(_name, f"{__name__}:BitFlipping", max_episode_steps=_bits, kwargs={"num_bits": _bits})
gymnasium.register("PointReach-v0", f"{__name__}:PointReach", max_episode_steps=50)
