"""Wrappers for training only, which leave as they are the length of an episode and the rewards that are counted.

The agent may learn from other rewards than those that are counted, and its task may end where the environment goes on,
as when a game takes one of several lives. A wrapper says the latter by `terminated`, with `GOES_ON` in the info: no
value is looked for behind that step, yet nothing begins anew.
"""

from collections.abc import Mapping
from typing import Any

import gymnasium
import numpy as np

from note_rl.environments.base import Env

GOES_ON = "episode_goes_on"


def is_over(terminated: bool, truncated: bool, info: Mapping[str, Any]) -> bool:
    """Whether the environment has to begin anew."""
    return truncated or (terminated and not info.get(GOES_ON, False))


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


class SignOfReward(gymnasium.wrappers.TransformReward[Any, Any]):
    """Rewards of -1, 0 and 1, so that one learning rate serves many games (Mnih et al. 2015)."""

    def __init__(self, env: Env) -> None:
        super().__init__(env, _sign)


def _sign(reward: Any) -> float:
    return float(reward > 0) - float(reward < 0)
