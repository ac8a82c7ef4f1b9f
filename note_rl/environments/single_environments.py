"""Single environments like those of a vector environment: to see their spaces, to evaluate and to draw."""

import copy
import sys
from collections.abc import Callable
from typing import Any, TypeVar

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.vector import AsyncVectorEnv, SyncVectorEnv

from note_rl.environments.base import AnyVectorEnv, Env
from note_rl.environments.gymnasium_vector import foreign_environments
from note_rl.errors import EnvironmentMismatchError
from note_rl.types import ACTION_MASK, Array, BoolArray


def single_factory(env: AnyVectorEnv) -> Callable[[], Env]:
    """A factory of fresh environments like those in a vector environment.

    Of Gymnasium's own ones it is the factory that they were given. Of others (wrappers, which may change what is seen,
    included) it makes copies, whose first environment is looked at.

    Raises:
        EnvironmentMismatchError: When called: it can be neither made again nor copied.
    """
    if isinstance(env, SyncVectorEnv | AsyncVectorEnv):
        make: Callable[[], Env] = env.env_fns[0]
        return make
    advice = (
        "give a function that makes a new one, a SyncVectorEnv or AsyncVectorEnv without wrappers, or the factory of a "
        "single environment with num_envs"
    )
    return lambda: FirstOfVector(copied(env, advice))


def first_of(made: AnyVectorEnv) -> Env:
    """A single environment like those of a vector environment that was made for this, and is not used otherwise."""
    if isinstance(made, SyncVectorEnv | AsyncVectorEnv):
        make = single_factory(made)
        made.close()
        return make()
    return FirstOfVector(made)


SomeEnv = TypeVar("SomeEnv")
_NUMBERING = ("pybullet", "libsumo", "traci", "pyrep")
"""Packages that keep simulators to themselves: what an environment holds of one is a number, or nothing at all."""


def copied(env: SomeEnv, advice: str) -> SomeEnv:
    """A deep copy of an environment.

    Args:
        env: Of any kind.
        advice: What to give instead, for the message.

    Raises:
        EnvironmentMismatchError: Something that it holds cannot be copied, or is a simulator that its copy would share.
    """
    package = _numbers_simulators(env)
    if package is not None:
        raise EnvironmentMismatchError(
            f"{type(env).__name__} cannot be copied ({package} keeps its simulators to itself, so that a copy would "
            f"step and close the same one); {advice}"
        )
    try:
        return copy.deepcopy(env)
    except (TypeError, ValueError, RuntimeError, NotImplementedError) as error:  # whatever it holds refuses by these
        raise EnvironmentMismatchError(f"{type(env).__name__} cannot be copied ({error}); {advice}") from error


def _numbers_simulators(env: Any) -> str | None:
    """The package of that kind that is used where the class of an environment, or of what it holds, is written."""
    packages = [name for name in _NUMBERING if name in sys.modules]
    if not packages:
        return None
    inner = getattr(env, "unwrapped", env)
    for one in (inner, *getattr(inner, "__dict__", {}).values()):
        for kind in type(one).__mro__:
            used = list(getattr(sys.modules.get(kind.__module__), "__dict__", {}).values())
            for name in packages:
                if any(value is sys.modules[name] for value in used):
                    return name
    return None


class FirstOfVector(gymnasium.Env[Array, Any]):
    """The first environment of a vector environment; the others do what it does and are not looked at."""

    def __init__(self, env: AnyVectorEnv) -> None:
        self._envs = foreign_environments(env, 0)
        self.shown_name = self._envs.name
        self.observation_space = self._envs.observation_space
        self.action_space = self._envs.action_space
        self.metadata = dict(env.metadata)
        self.render_mode = env.render_mode

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Array, dict[str, Any]]:
        """Begins everywhere; without a seed, from the next one."""
        super().reset(seed=seed)
        self._envs.restart(self._envs.seed + 1 if seed is None else seed)
        return self._envs.obs[0], self._info(self._envs.action_mask)

    def step(self, action: Any) -> tuple[Array, float, bool, bool, dict[str, Any]]:
        """One step everywhere."""
        space = self.action_space
        start: Any = space.start if isinstance(space, spaces.Discrete | spaces.MultiDiscrete) else 0
        own = np.asarray(action) - start if np.any(start) else np.asarray(action)
        _, _, obs, terminated, ended = self._envs.step(np.stack([own] * len(self._envs)))
        info = self._info(self._envs.next_action_mask)
        return obs[0], float(self._envs.counted[0]), bool(terminated[0]), bool(ended[0] and not terminated[0]), info

    def _info(self, mask: BoolArray | None) -> dict[str, Any]:
        return {} if mask is None else {ACTION_MASK: mask[0]}

    def close(self) -> None:
        """Closes the vector environment."""
        self._envs.close()
