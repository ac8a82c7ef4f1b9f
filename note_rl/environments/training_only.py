"""Wrappers for training only, which leave as they are the length of an episode and the rewards that are counted.

The agent may learn from other rewards than those that are counted, and its task may end where the environment goes on,
as when a game takes one of several lives. A wrapper says the latter by `terminated`, with `GOES_ON` in the info: no
value is looked for behind that step, yet nothing begins anew.

A wrapper with a function `of_vector` does the same to the steps of environments that are stepped together.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, TypeAlias

import gymnasium
import numpy as np

from note_rl.environments.base import Env
from note_rl.types import BoolArray, FloatArray

GOES_ON = "episode_goes_on"
LOST_LIFE = "lost_life"
"""In the info of a vector environment: which environments [E] have lost a life in this step, and go on."""

VectorChange: TypeAlias = Callable[[FloatArray, BoolArray, Mapping[str, Any]], tuple[FloatArray, BoolArray]]
"""Rewards and ends [E] that the agent learns from, made of those of a step and its info."""


def is_over(terminated: bool, truncated: bool, info: Mapping[str, Any]) -> bool:
    """Whether the environment has to begin anew."""
    return truncated or (terminated and not info.get(GOES_ON, False))


def vector_changes(wrappers: Sequence[Callable[[Env], Env]]) -> list[VectorChange] | None:
    """Changes that wrappers for training make to environments that are stepped together; None: one does not say."""
    changes = [_vector_change(one) for one in wrappers]
    return None if None in changes else [change for change in changes if change is not None]


def _vector_change(wrapper: Callable[[Env], Env]) -> VectorChange | None:
    """That of the very class: one that is derived from it, or given arguments, may do something else."""
    kind: Any = wrapper.func if isinstance(wrapper, partial) and not (wrapper.args or wrapper.keywords) else wrapper
    return kind.of_vector if "of_vector" in getattr(kind, "__dict__", {}) else None


class RewardAsItIs(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Adds up rewards before wrappers around it change them."""

    def __init__(self, env: Env) -> None:
        super().__init__(env)
        self._earned = 0.0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begins anew."""
        self._earned = 0.0
        return self.env.reset(seed=seed, options=options)

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """One step of the environment."""
        answer = self.env.step(action)
        self._earned += float(np.sum(np.asarray(answer[1], np.float64)))  # several agents: one each
        return answer

    def take(self) -> float:
        """Returns the sum of rewards since the last call, and begins a new one."""
        earned, self._earned = self._earned, 0.0
        return earned


class LifeLoss(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Nothing is worth anything behind a lost life (Mnih et al. 2015), while the game goes on.

    For environments whose info counts `lives`, as Atari games do.
    """

    def __init__(self, env: Env) -> None:
        super().__init__(env)
        self._lives = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begins a game."""
        obs, info = self.env.reset(seed=seed, options=options)
        self._lives = int(info.get("lives", 0))
        return obs, info

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """One step of the game; `terminated` also where it has taken a life."""
        obs, reward, terminated, truncated, info = self.env.step(action)
        before, self._lives = self._lives, int(info.get("lives", 0))
        if self._lives < before and not terminated:
            return obs, reward, True, truncated, {**info, GOES_ON: True}
        return obs, reward, terminated, truncated, info

    @staticmethod
    def of_vector(reward: FloatArray, terminated: BoolArray, info: Mapping[str, Any]) -> tuple[FloatArray, BoolArray]:
        """See `VectorChange`."""
        return reward, terminated | info[LOST_LIFE]


class SignOfReward(gymnasium.wrappers.TransformReward[Any, Any]):
    """Rewards of -1, 0 and 1, so that one learning rate serves many games (Mnih et al. 2015)."""

    def __init__(self, env: Env) -> None:
        super().__init__(env, _sign)

    @staticmethod
    def of_vector(reward: FloatArray, terminated: BoolArray, info: Mapping[str, Any]) -> tuple[FloatArray, BoolArray]:
        """See `VectorChange`."""
        del info
        return np.sign(reward), terminated


def _sign(reward: Any) -> float:
    return float(reward > 0) - float(reward < 0)
