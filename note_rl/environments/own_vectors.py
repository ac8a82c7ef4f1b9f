"""Environments that are registered with a vector implementation of their own.

One that can begin single environments with seeds of their own (it says `takes_seeds = True`) is used where it changes
nothing but the time: where it gives, bit for bit, what the environments give one by one in a short probe with ends of
both kinds, and where it was faster in it. So whether it is used, which depends on the machine, cannot be seen in any
result or checkpoint.

Any other is used whenever there are several environments: its author wants that. Its random numbers are its
own, so its episodes are others than those of single environments. A checkpoint brings them back only if it takes seeds
and says so beside `own_episodes = True`.
"""

import logging
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import gymnasium
import numpy as np
from gymnasium.envs.classic_control.cartpole import CartPoleVectorEnv
from gymnasium.envs.registration import load_env_creator
from gymnasium.utils.seeding import np_random

from note_rl.environments.base import AnyVectorEnv, Environments
from note_rl.environments.environment_factory import EnvFactory
from note_rl.environments.gymnasium_vector import ForeignVector, foreign_environments, takes_seeds
from note_rl.environments.in_process import VectorEnvironment
from note_rl.environments.training_only import vector_changes
from note_rl.errors import say_once
from note_rl.types import Array

_log = logging.getLogger(__name__)
_FEWEST = 8  # environments below which it was never faster, so it is not tried (CartPole breaks even at 8 to 10)
_PROBE_STEPS = 60
_PROBE_LIMIT = 12  # steps after which time is up in the probe: random play of CartPole ends at 9 to 30


class SeededCartPole(CartPoleVectorEnv):
    """Gymnasium's own vector CartPole, which begins single environments as the single one does.

    Gymnasium's draws the starts of all environments from one generator, in a dead step.
    """

    takes_seeds = True
    state: Any

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> tuple[Array, dict[str, Any]]:
        """Begins with a list of seeds where `options["reset_mask"]` [E] says; else as Gymnasium's."""
        if options is None or "reset_mask" not in options:
            return super().reset(seed=seed, options=options)
        mask = options["reset_mask"]
        if self.state is None:
            self.state = np.zeros((4, self.num_envs))
        for index in np.flatnonzero(mask):
            self.state[:, index] = np_random(seed[index])[0].uniform(-0.05, 0.05, 4)
        self.steps[mask] = 0
        self.prev_done[mask] = False
        return self.state.T.astype(np.float32), {}


_SEEDED: dict[Any, Callable[..., AnyVectorEnv]] = {
    "gymnasium.envs.classic_control.cartpole:CartPoleVectorEnv": SeededCartPole
}


def own_vector(factory: EnvFactory, num_envs: int, seed: int) -> Environments | None:
    """The environments in their own vector implementation, or None where there is none, or it is not to be used.

    Args:
        factory: Of the single environment.
        num_envs: E.
        seed: Root of their seeds.
    """
    spec = factory.registered()
    if num_envs < 2 or spec is None or spec.vector_entry_point is None or spec.additional_wrappers:
        return None
    changes = vector_changes(factory.training_wrappers)
    if factory.wrappers or changes is None or "render_mode" in factory.kwargs:
        return None
    limit = factory.max_episode_steps or spec.max_episode_steps
    if limit is not None and limit < 1:  # for single environments it means that there is none
        return None
    if changes and not _tells_lost_lives(spec.vector_entry_point):
        return None
    try:
        vector = _make(factory, spec, num_envs, limit)
        bare = replace(factory, training_wrappers=())
        if takes_seeds(vector) and not getattr(type(vector), "own_episodes", False):
            environments = _if_equal_and_faster(vector, bare, limit, seed)
        else:
            environments = _if_alike(vector, bare, seed)
    except (ImportError, AttributeError, TypeError, ValueError, gymnasium.error.Error) as error:
        say_once(_log, f"{factory.id}: its vector implementation is not used, as it cannot be made: {error}")
        return None
    if environments is not None:
        environments.for_training = changes
    return environments


def _tells_lost_lives(entry_point: Any) -> bool:
    """Whether a vector environment says in its info what changes for training only ask for; it is not made."""
    try:
        made_by = load_env_creator(entry_point) if isinstance(entry_point, str) else entry_point
    except (ImportError, AttributeError):
        return False
    return bool(getattr(made_by, "tells_lost_lives", False))


def _make(factory: EnvFactory, spec: Any, num_envs: int, limit: int | None) -> AnyVectorEnv:
    limited: dict[str, Any] = {} if limit is None else {"max_episode_steps": limit}
    make = _SEEDED.get(spec.vector_entry_point)
    if make is not None:
        return make(num_envs=num_envs, **spec.kwargs, **factory.kwargs, **limited)
    return gymnasium.make_vec(spec, num_envs, "vector_entry_point", **factory.kwargs, **limited)


def _if_alike(vector: AnyVectorEnv, factory: EnvFactory, seed: int) -> ForeignVector | None:
    """The vector if it is one of the same environments, as far as their spaces show."""
    alone = factory()
    found = vector.single_observation_space, vector.single_action_space
    expected = alone.observation_space, alone.action_space
    alone.close()
    why = None
    if found != expected:
        why = f"its environments have {found[0]} and {found[1]}, single ones {expected[0]} and {expected[1]}"
    elif not isinstance(found[0], gymnasium.spaces.Box):
        why = f"its observations ({found[0]}) are no arrays"
    elif "autoreset_mode" not in vector.metadata:
        why = "its metadata has no 'autoreset_mode'"
    if why is not None:
        vector.close()
        say_once(_log, f"{factory.id}: its vector implementation is not used, as {why}")
        return None
    if not takes_seeds(vector):
        say_once(
            _log,
            f"{factory.id}: stepping all {vector.num_envs} environments in its own vector implementation, "
            f"{type(vector.unwrapped).__name__}, whose episodes a checkpoint cannot bring back",
        )
    return foreign_environments(vector, seed)


def _if_equal_and_faster(
    vector: AnyVectorEnv, factory: EnvFactory, limit: int | None, seed: int
) -> ForeignVector | None:
    """The vector if both ways give the same numbers, and it is the faster one."""
    if vector.num_envs >= _FEWEST and limit is not None and _probed(factory, vector.num_envs):
        return foreign_environments(vector, seed)
    vector.close()
    return None


def _probed(factory: EnvFactory, num_envs: int) -> bool:
    limited = replace(factory, max_episode_steps=_PROBE_LIMIT)
    together = foreign_environments(_make(factory, factory.registered(), num_envs, _PROBE_LIMIT), seed=0)
    alone = VectorEnvironment([limited() for _ in range(2)], seed=0)
    rng = np.random.default_rng(0)
    space = alone.action_space
    seconds, seconds_alone = [], []
    try:
        for _ in range(_PROBE_STEPS):
            action = _random_actions(space, num_envs, rng)
            began = time.perf_counter()
            ours = together.step(action)
            between = time.perf_counter()
            theirs = alone.step(action[:2])
            seconds.append(between - began)
            seconds_alone.append(time.perf_counter() - between)
            pairs = zip((*ours, together.obs), (*theirs, alone.obs), strict=True)
            if not all(np.array_equal(mine[:2], other) for mine, other in pairs):
                return False
    finally:
        together.close()
        alone.close()
    return sum(seconds) < sum(seconds_alone) * num_envs / 2


def _random_actions(space: Any, num_envs: int, rng: np.random.Generator) -> Array:
    if isinstance(space, gymnasium.spaces.Discrete):
        return rng.integers(int(space.n), size=num_envs)
    return rng.uniform(space.low, space.high, (num_envs, *space.shape)).astype(space.dtype)
