"""Evaluation on fresh environments, and the score of acting at random."""

from collections.abc import Callable

import numpy as np

from note_rl.environments import EnvLike, VectorEnvironment, as_factory, flat_observations
from note_rl.errors import SettingsError
from note_rl.seeding import generator
from note_rl.types import Array, Evaluation, FloatArray

ChooseActions = Callable[[Array], Array]


def evaluate(choose: ChooseActions, env: EnvLike, num_episodes: int, seed: int, parallel: int = 10) -> Evaluation:
    """Plays episodes in fresh environments, several side by side.

    Args:
        choose: Actions [E] for observations [E, *obs].
        env: What to play in; copies are made.
        num_episodes: Exactly so many episodes count. Each environment plays its share, so that short episodes are not
            preferred to long ones.
        seed: Of the environments.
        parallel: Most environments at once.
    """
    if num_episodes < 1:
        raise SettingsError(f"num_episodes must be at least 1, got {num_episodes}")
    factory = as_factory(env)
    envs = VectorEnvironment([flat_observations(factory()) for _ in range(min(parallel, num_episodes))], seed)
    share = [num_episodes // len(envs) + (index < num_episodes % len(envs)) for index in range(len(envs))]
    returns: list[list[float]] = [[] for _ in range(len(envs))]
    lengths: list[list[int]] = [[] for _ in range(len(envs))]
    total = np.zeros(len(envs))
    steps = np.zeros(len(envs), np.int64)
    try:
        while any(len(done) < wanted for done, wanted in zip(returns, share, strict=True)):
            _, reward, _, _, ended = envs.step(choose(envs.obs))
            total += reward
            steps += 1
            for index in np.flatnonzero(ended):
                returns[index].append(float(total[index]))
                lengths[index].append(int(steps[index]))
                total[index], steps[index] = 0.0, 0
    finally:
        envs.close()
    kept = [
        (r, n) for i, wanted in enumerate(share) for r, n in zip(returns[i][:wanted], lengths[i][:wanted], strict=True)
    ]
    return Evaluation(np.array([r for r, _ in kept]), np.array([n for _, n in kept]))


def random_policy_returns(env: EnvLike, num_episodes: int, seed: int) -> FloatArray:
    """Returns [num_episodes] of uniformly random actions: what an agent that learned nothing scores."""
    probe = as_factory(env)()
    space = probe.action_space
    probe.close()
    space.seed(int(generator(seed, "random policy").integers(2**31)))
    start = int(getattr(space, "start", 0))  # discrete actions are counted from 0 in here

    def choose(obs: Array) -> Array:
        return np.stack([np.asarray(space.sample() - start if start else space.sample()) for _ in range(len(obs))])

    return evaluate(choose, env, num_episodes, seed).returns
