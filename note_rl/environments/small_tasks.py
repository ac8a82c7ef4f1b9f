"""Tasks so small that what an agent should learn is known: each needs one part of an algorithm more than the last.

After the probe environments of Jones ("Debugging reinforcement learning systems", 2021). There are four actions, or an
action is one number; it is right by a share of 0 to 1. Observations are four numbers.
"""

from typing import Any, Final

import gymnasium
import numpy as np
from gymnasium import spaces

from note_rl.types import Array

NAME: Final = "note-rl/SmallTask-v0"
ID: Final = f"note_rl.environments.small_tasks:{NAME}"
"""As an environment is typed: a worker process imports the module for it."""
STAY_REWARD: Final = 0.7
LEAVE_REWARD: Final = 1.0
"""Of the task `time_limit`, whose limit is one step. To stay is worth 0.7 / (1 - gamma): 70 at a discount of 0.99. An
agent that takes the limit for an end finds it worth 0.7, less than to leave. While its values are near 0, every agent
prefers to leave, and has to unlearn that. So leaving brings only 0.3 more. When it brought 2 more, with a limit of
three steps, TD3 often did not unlearn it.
"""
NUM_ACTIONS: Final = 4
_NOISE: Final = 0.5
_ALWAYS: Final = ("reward", "time_limit")
"""Tasks whose right action is always the same."""
_NOISY: Final = ("noise", *_ALWAYS)
"""Tasks with noise in their observations. Without noise, all observations of `_ALWAYS` would be the same. An agent that
normalises over a batch, such as CrossQ, hardly learns from such observations.
"""
_STAYS: Final = 0.9
"""Share from which on an action is to stay."""
_WAIT: Final = 5
_EPISODE_STEPS: Final = {"next_step": 2, "delay": 1 + _WAIT, "memory": 3}
"""Steps of an episode, where that is not one."""


class SmallTask(gymnasium.Env[Array, Any]):
    """One of the tasks.

    Args:
        kind: reward: the same action is always right, for a reward of 1; observations are noise. observation: the
            observation says which. noise: the same, with noise in rewards and observations. next_step: the right first
            action decides what the second observation is, and that the reward. delay: the same, five steps later.
            time_limit: the right action is to stay, after which the episode is cut off; any other is to leave, for a
            higher reward, and ends it; observations are noise. memory: the first observation says which action is right
            at the third step; the two observations after it do not.
        continuous: Whether actions are numbers from -1 to 1.
    """

    def __init__(self, kind: str, continuous: bool = False) -> None:
        if kind not in KINDS:
            raise ValueError(f"kind={kind!r} must be one of {', '.join(KINDS)}")
        self.observation_space = spaces.Box(-4.0, 4.0, (4,), np.float32)
        self.action_space = spaces.Box(-1.0, 1.0, (1,), np.float32) if continuous else spaces.Discrete(NUM_ACTIONS)
        self._kind = kind
        self._continuous = continuous
        self._sign, self._num_steps, self._share = 1.0, 0, 0.0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Array, dict[str, Any]]:
        """A new episode: of some tasks with another right action."""
        super().reset(seed=seed, options=options)
        self._sign = 1.0 if self._kind in _ALWAYS else float(self.np_random.choice([-1.0, 1.0]))
        self._num_steps, self._share = 0, 0.0
        return self._obs(), {}

    def step(self, action: Any) -> tuple[Array, float, bool, bool, dict[str, Any]]:
        """Rewards what is right by the task."""
        self._num_steps += 1
        if self._kind == "time_limit":
            leaves = self._right(action) < _STAYS
            reward = LEAVE_REWARD if leaves else STAY_REWARD
            return self._obs(), reward, leaves, not leaves, {}
        last = _EPISODE_STEPS.get(self._kind, 1)
        if self._num_steps == (last if self._kind == "memory" else 1):
            self._share = self._right(action)
        ended = self._num_steps == last
        noise = _NOISE * float(self.np_random.standard_normal()) if self._kind == "noise" else 0.0
        return self._obs(), self._share + noise if ended else 0.0, ended, False, {}

    def _right(self, action: Any) -> float:
        """How right an action is: 1 or 0; of numbers, by the square of the distance to half the sign."""
        if not self._continuous:
            return float(int(action) == (1 if self._sign > 0.0 else 2))
        return max(0.0, 1.0 - (float(np.asarray(action).reshape(-1)[0]) - 0.5 * self._sign) ** 2)

    def _obs(self) -> Array:
        if self._kind in _NOISY:
            others = self.np_random.standard_normal(3).clip(-4.0, 4.0)
        else:
            others = np.array([1.0, self._num_steps / _WAIT, 0.0])
        after = 0.0 if self._kind == "memory" else 2.0 * self._share - 1.0
        shown = self._sign if self._num_steps == 0 else after
        return np.array([1.0 if self._kind in _ALWAYS else shown, *others], np.float32)


KINDS: Final = ("reward", "observation", "noise", "next_step", "delay", "time_limit", "memory")

gymnasium.register(NAME, entry_point="note_rl.environments.small_tasks:SmallTask")
