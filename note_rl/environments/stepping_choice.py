"""How the environments of training are stepped, from what an agent was given as its `env`."""

from collections.abc import Sequence

import gymnasium

from note_rl.environments.base import AnyVectorEnv, Environments
from note_rl.environments.env_pool import PREFIX, pool_of
from note_rl.environments.environment_factory import (
    EnvFactory,
    EnvLike,
    as_factory,
    flat_observations,
    make_environments,
)
from note_rl.environments.goals import goal_layout, goal_spaces
from note_rl.environments.gymnasium_vector import foreign_environments
from note_rl.environments.in_process import VectorEnvironment
from note_rl.environments.memory_estimate import several
from note_rl.environments.own_vectors import own_vector
from note_rl.errors import EnvironmentMismatchError
from note_rl.settings.switch_names import NUM_ENVS


def training_environments(env: EnvLike, num_envs: int | None, seed: int) -> Environments:
    """The environments to train in.

    Args:
        env: An environment, an id, a list, a factory, or a vector environment or a factory of one.
        num_envs: How many; None: as many as `env` holds, or one.
        seed: Root of their seeds.

    Raises:
        EnvironmentMismatchError: They cannot be made, or `num_envs` is not how many there are.
    """
    factory = EnvFactory(env) if isinstance(env, str) else env
    if isinstance(factory, gymnasium.vector.VectorEnv):
        return _foreign(factory, num_envs, seed, factory)
    if isinstance(factory, EnvFactory):
        if factory.id.startswith(PREFIX):
            return foreign_environments(pool_of(factory, num_envs or 1, seed), seed)
        own = own_vector(factory, num_envs or 1, seed)
        if own is not None:
            return own
    elif callable(factory) and not isinstance(factory, gymnasium.Env):
        made = factory()
        if isinstance(made, gymnasium.vector.VectorEnv):
            return _foreign(made, num_envs, seed, factory)
        one = as_factory(factory)
        more = several(one, (num_envs or 1) - 1)
        return VectorEnvironment([flat_observations(env) for env in (made, *more)], seed)
    return VectorEnvironment(make_environments(env, num_envs), seed)


def some_environments(env: EnvLike, numbers: Sequence[int], seed: int) -> Environments:
    """Those of some numbers among more, whose others are stepped elsewhere; each has the seeds that it has among all.

    Args:
        env: An environment, an id, a factory, or a list of those of these numbers.
        numbers: Of these environments.
        seed: Root of the seeds of all.

    Raises:
        EnvironmentMismatchError: They cannot be made.
    """
    return VectorEnvironment(make_environments(env, len(numbers)), seed, numbers)


def _foreign(env: AnyVectorEnv, num_envs: int | None, seed: int, given: EnvLike) -> Environments:
    if num_envs not in (None, env.num_envs):
        raise EnvironmentMismatchError(
            "{}, but env is a vector environment of {}; {}", NUM_ENVS.at(num_envs), env.num_envs, NUM_ENVS.leave_out()
        )
    if goal_spaces(env.single_observation_space) is None:
        return foreign_environments(env, seed)
    probe = flat_observations(as_factory(given)())
    return foreign_environments(env, seed, goal_layout(probe))  # not closed: it computes rewards
