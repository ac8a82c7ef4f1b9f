"""Where environments are stepped: here, or in worker processes."""

from dataclasses import replace
from typing import Any

import numpy as np

from note_rl.collect.base import Collecting
from note_rl.collect.collector import Collector
from note_rl.collect.workers.pool_network import PoolCollector
from note_rl.environments import difference, training_environments
from note_rl.environments.multi_agent import joint_environments
from note_rl.errors import EnvironmentMismatchError
from note_rl.policy import Policy
from note_rl.settings import Settings
from note_rl.settings.workers import WorkerSettings


def make_collector(agent: Any, settings: Settings, policy: Policy, seed: int, rng: np.random.Generator) -> Collecting:
    """Returns the collector for the settings.

    Args:
        agent: Whose `env` it is.
        settings: Say how many environments, and where.
        policy: How to explore.
        seed: Root of the randomness of environments and workers.
        rng: Explores in this process.

    Raises:
        NoteRLError: Environments that cannot be made, or do not fit.
    """
    if settings.workers is not None:
        return PoolCollector(agent, settings, policy, seed)
    env = agent.env
    if settings.multi_agent:
        env = joint_environments(env, getattr(agent, "reward_done_func_ma", None))
    assert not isinstance(settings.num_envs, str), "settled by the agent"
    envs = training_environments(env, settings.num_envs, seed)
    return Collector(envs, policy, rng, settings.experience.frame_stack, agent.batch_attributes)


def same_environments(former: Settings, new: Settings) -> bool:
    """Whether what collected under the former settings can go on under the new ones."""
    return (former.num_envs, former.multi_agent, _who(former)) == (
        new.num_envs,
        new.multi_agent,
        _who(new),
    ) and former.experience.frame_stack == new.experience.frame_stack


def _who(settings: Settings) -> WorkerSettings | None:
    """The worker settings, ignoring `overlapping`."""
    return None if settings.workers is None else replace(settings.workers, overlapping=False)


def check_same_spaces(former: Collecting, new: Collecting) -> None:
    """Refuses environments in which an agent that has acted in others cannot go on (EnvironmentMismatchError)."""
    unlike = difference(former, new)
    if unlike is not None:
        raise EnvironmentMismatchError(
            f"agent.env is another now, in which this agent cannot go on: {unlike}; make another agent for it"
        )
