"""Environments of EnvPool (extra `envpool`), written in C++: ids such as `envpool:CartPole-v1`.

EnvPool draws its seeds when it is made, so its episodes are the same for the same seed and number of environments, but
cannot be brought back by a checkpoint. Its environments can be reset one by one, so no step is dead.
"""

import importlib
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv

from note_rl.environments.base import Env
from note_rl.environments.single_environments import FirstOfVector
from note_rl.errors import EnvironmentMismatchError
from note_rl.errors.wording import choice
from note_rl.seeding import integer
from note_rl.types import Array

PREFIX = "envpool:"


class EnvPoolVector(VectorEnv[Array, Array, Array]):
    """A pool as a vector environment in the mode DISABLED.

    Args:
        env_id: With or without the prefix.
        num_envs: E.
        seed: Of the first episodes.
        **kwargs: Arguments of the environment; those that are None are left out.

    Raises:
        EnvironmentMismatchError: EnvPool is not installed, knows no such environment or takes no such arguments.
    """

    def __init__(self, env_id: str, num_envs: int, seed: int = 0, **kwargs: Any) -> None:
        self._task = env_id.removeprefix(PREFIX)
        self._kwargs = {name: value for name, value in kwargs.items() if value is not None}
        self.num_envs = num_envs
        self.metadata = {"autoreset_mode": AutoresetMode.DISABLED}
        self._seed = seed
        self._pool = self._made(seed)
        self.single_observation_space = self._pool.single_observation_space
        self.single_action_space = self._pool.single_action_space
        self.observation_space = gymnasium.vector.utils.batch_space(self.single_observation_space, num_envs)
        self.action_space = gymnasium.vector.utils.batch_space(self.single_action_space, num_envs)
        self._obs: Array | None = None

    def _made(self, seed: int) -> Any:
        try:
            envpool = importlib.import_module("envpool")
        except ModuleNotFoundError as error:
            if error.name != "envpool":
                raise
            raise EnvironmentMismatchError(
                f"{PREFIX}{self._task} needs EnvPool, which is not installed: pip install 'note-rl[envpool]'"
            ) from error
        try:
            return envpool.make_gymnasium(self._task, num_envs=self.num_envs, seed=seed % 2**31, **self._kwargs)
        except (AssertionError, TypeError, ValueError) as error:  # its answers to unknown ids and arguments
            raise EnvironmentMismatchError(f"EnvPool cannot make {self._task!r}: {error}") from error

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Array, dict[str, Any]]:
        """Begins anew everywhere, or where `options["reset_mask"]` [E] says; a seed makes a new pool."""
        mask = (options or {}).get("reset_mask")
        if seed is not None and (seed != self._seed or self._obs is not None):
            self._pool.close()
            self._pool, self._seed, self._obs = self._made(seed), seed, None
        if mask is None or self._obs is None:
            self._obs = np.array(self._pool.reset()[0])
        else:
            indices = np.flatnonzero(mask).astype(np.int32)
            self._obs = self._obs.copy()
            self._obs[indices] = self._pool.reset(indices)[0]  # rows of these environments only
        return self._obs, {}

    def step(self, actions: Array) -> tuple[Array, Array, Array, Array, dict[str, Any]]:
        """One step in each; those that have ended must be reset before the next one."""
        obs, reward, terminated, truncated, _ = self._pool.step(np.asarray(actions, self.single_action_space.dtype))
        self._obs = np.array(obs)
        return self._obs, reward, terminated, truncated, {}

    def close_extras(self, **kwargs: Any) -> None:
        """Ends the pool's threads."""
        self._pool.close()


class PoolFactory(Protocol):
    """The attributes of an `EnvFactory` that are read here."""

    @property
    def id(self) -> str: ...  # noqa: D102
    @property
    def kwargs(self) -> Mapping[str, Any]: ...  # noqa: D102
    @property
    def wrappers(self) -> Sequence[Any]: ...  # noqa: D102
    @property
    def training_wrappers(self) -> Sequence[Any]: ...  # noqa: D102
    @property
    def max_episode_steps(self) -> int | None: ...  # noqa: D102


def single_pool(factory: PoolFactory) -> Env:
    """One environment of EnvPool; see `pool_of`."""
    return FirstOfVector(pool_of(factory, 1, 0))


def pool_of(factory: PoolFactory, num_envs: int, seed: int) -> EnvPoolVector:
    """Several environments of EnvPool.

    Raises:
        EnvironmentMismatchError: They cannot be made, or wrappers of single environments were asked for.
    """
    if factory.wrappers or factory.training_wrappers:
        raise EnvironmentMismatchError(
            "{} cannot be wrapped: EnvPool steps its environments together; use {}",
            *(factory.id, choice("EnvPool's own arguments")),
        )
    return EnvPoolVector(
        factory.id,
        num_envs,
        integer(seed, "environment", 0, 0),
        max_episode_steps=factory.max_episode_steps,
        **factory.kwargs,
    )
