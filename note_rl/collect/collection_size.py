"""How many environments and how many worker processes: what was measured goes in, a number and its reason come out."""

import logging
import math
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from note_rl.collect.evaluation import random_actions
from note_rl.collect.policy_runner import PolicyRunner
from note_rl.environments import Environments, VectorEnvironment, as_factory, flat_observations
from note_rl.environments.frames import FrameStack
from note_rl.environments.multi_agent import joint_environments
from note_rl.settings.experience import ExperienceSettings, ReplaySettings, RolloutSettings, SequenceSettings
from note_rl.settings.switch_names import NUM_ENVS, PROCESSES
from note_rl.support.memory import resident_bytes

_log = logging.getLogger(__name__)
_MOST_ENVS = 64
_TOLERANCE = 0.1  # share of a step's lowest possible cost that may go to calling the policy
_WAKE_UP_S = 1e-3  # stepping per phase below which a worker is not worth waking: about ten times what that costs
_MEASURED_S = 0.1  # of each thing measured
_MANY = 16  # rows in the second of the two policy calls that are measured


@dataclass(frozen=True)
class StepCosts:
    """Costs of an environment step in one process, in seconds.

    Attributes:
        step_s: The environment itself.
        call_s: Calling the policy, whatever for.
        row_s: What each environment adds to that call.
    """

    step_s: float
    call_s: float
    row_s: float

    def at(self, num_envs: int) -> float:
        """Of one environment step where a number of environments share a call."""
        return self.step_s + self.row_s + self.call_s / num_envs


def best_num_envs(costs: StepCosts, fewest: int = 1, most: int = _MOST_ENVS) -> int:
    """The smallest power of two at which a step costs at most a tenth more than it would with endlessly many.

    More environments make no faster, and learn from older data.

    Args:
        costs: Measured.
        fewest: What a minibatch asks for; the next power of two is where the search starts.
        most: Where it ends.
    """
    lowest = costs.step_s + costs.row_s
    num_envs = 1 << (max(fewest, 1) - 1).bit_length()
    while 2 * num_envs <= most and costs.at(num_envs) > (1.0 + _TOLERANCE) * lowest:
        num_envs *= 2
    return num_envs


@dataclass(frozen=True)
class WorkerLimits:
    """Bounds on the number of worker processes.

    Attributes:
        cores: That this process may use.
        memory_mb: That may be used in all, by pool and workers.
        pool_mb: Of the replay pool.
        worker_mb: Of a worker with an environment.
        num_experiences: That the pool holds, or a rollout.
        min_per_process: Of those for each worker.
        phase_s: What stepping costs between two updates, in one process; None: not known.
    """

    cores: int
    memory_mb: float
    pool_mb: float
    worker_mb: float
    num_experiences: int
    min_per_process: int
    phase_s: float | None = None


def best_num_processes(limits: WorkerLimits) -> tuple[int, str]:
    """The most workers that every limit allows, at least one, and which limit it was."""
    allowed = {
        "cores": float(limits.cores),
        "memory": (limits.memory_mb - limits.pool_mb) / limits.worker_mb,
        "experiences per process": limits.num_experiences / limits.min_per_process,
    }
    if limits.phase_s is not None:
        allowed["environments that step too fast to share"] = limits.phase_s / _WAKE_UP_S
    reason = min(allowed, key=lambda name: allowed[name])
    return max(1, math.floor(allowed[reason])), reason


def chosen_num_envs(agent: Any, experience: ExperienceSettings) -> int:
    """The number of environments that `num_envs="auto"` stands for, measured and said in one line.

    Args:
        agent: With `env`, `learner` and `obs_normaliser`.
        experience: What it is going to train from, which bounds the choice.
    """
    costs = measured_costs(agent)
    fewest, most = 1, _MOST_ENVS
    if isinstance(experience, RolloutSettings):
        if experience.batch_size != "rollout" and experience.num_env_steps is None:
            fewest = math.ceil(experience.batch_size / experience.num_steps)
        if experience.num_env_steps is not None:
            most = min(most, experience.num_env_steps)
    elif isinstance(experience, SequenceSettings):
        most = min(most, max(experience.capacity // experience.num_steps, 1))
    elif experience.train_freq is not None:
        most = min(most, experience.train_freq)
    num_envs = best_num_envs(costs, fewest, most)
    _log.info(
        "%s: an environment steps in %.1f us, a policy call takes %.1f us and %.1f us per environment, so a "
        "step costs %.1f us here, %.1f us with one environment and at least %.1f us with any number",
        NUM_ENVS.at(num_envs),
        *(1e6 * seconds for seconds in (costs.step_s, costs.call_s, costs.row_s)),
        *(1e6 * seconds for seconds in (costs.at(num_envs), costs.at(1), costs.step_s + costs.row_s)),
    )
    return num_envs


@dataclass(frozen=True)
class Share:
    """The resources that a user gives to worker processes; see `Agent.get_optimal_processes`."""

    memory_mb: float
    safety_factor: float
    min_exp_per_proc: int | None


def recommended_processes(agent: Any, num_envs: int, share: Share) -> int:
    """How many worker processes to train with, measured and said in one line; see `Agent.get_optimal_processes`."""
    experience: Any = agent.settings.experience
    in_rollouts = not isinstance(experience, ReplaySettings)
    if in_rollouts:
        experience = experience.for_envs(num_envs)
    before = resident_bytes() / 2**20
    envs = _fresh(agent)
    step_s = _step_seconds(envs)
    env_mb = max(resident_bytes() / 2**20 - before, 0.0)
    in_phase = experience.steps_per_env(num_envs) * num_envs if in_rollouts else experience.train_freq
    capacity = in_phase if isinstance(experience, RolloutSettings) else experience.capacity
    limits = WorkerLimits(
        cores=len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1,
        memory_mb=share.memory_mb * share.safety_factor,
        pool_mb=capacity * _transition_bytes(envs) / 2**20,
        worker_mb=before + env_mb,
        num_experiences=capacity,
        min_per_process=share.min_exp_per_proc or 10 * experience.batch_size,
        phase_s=None if in_phase is None else in_phase * step_s,
    )
    envs.close()
    number, reason = best_num_processes(limits)
    _log.info(
        "%s, limited by %s: %d cores, %.0f MB to use, of which the pool takes %.1f and a worker %.0f, %d "
        "experiences of which each process should have %d, environment steps of %.1f us",
        *(PROCESSES.at(number), reason, limits.cores, limits.memory_mb, limits.pool_mb, limits.worker_mb),
        *(limits.num_experiences, limits.min_per_process, 1e6 * step_s),
    )
    return number


def measured_costs(agent: Any) -> StepCosts:
    """Measures a step in a fresh environment, and the agent's answer to one observation and to many."""
    envs = _fresh(agent)
    try:
        act = PolicyRunner(agent.learner, agent.obs_normaliser, agent.settings.multi_agent)
        step_s = _step_seconds(envs)
        obs = envs.obs
    finally:
        envs.close()
    frames = agent.settings.experience.frame_stack
    shown = FrameStack(frames).show(obs, np.ones(1, np.bool_))
    many = np.repeat(shown, _MANY, axis=0)
    one_s, many_s = _seconds(lambda: act(shown)), _seconds(lambda: act(many))
    row_s = max(many_s - one_s, 0.0) / (_MANY - 1)
    return StepCosts(step_s, max(one_s - row_s, 0.0), row_s)


def _fresh(agent: Any) -> VectorEnvironment:
    env = agent.env
    if agent.settings.multi_agent:
        env = joint_environments(env, getattr(agent, "reward_done_func_ma", None))
    return VectorEnvironment([flat_observations(as_factory(env)())], seed=0)


def _step_seconds(envs: Environments) -> float:
    """Of an environment step, resets included as they come."""
    choose = random_actions(envs.action_space, seed=0)
    return _seconds(lambda: envs.step(choose(envs.obs, envs.action_mask)))


def _seconds(call: Callable[[], object]) -> float:
    """Of one call: the median of three series, after a first one that may compile."""
    call()
    medians = []
    for _ in range(3):
        began, number = time.perf_counter(), 0
        while (elapsed := time.perf_counter() - began) < _MEASURED_S / 3 or number == 0:
            call()
            number += 1
        medians.append(elapsed / number)
    return float(np.median(medians))


def _transition_bytes(envs: Environments) -> int:
    """Size of a transition: its two observations, action, reward and the two flags for ends."""
    action = np.asarray(envs.action_space.sample())
    return 2 * int(envs.obs[0].nbytes) + max(action.nbytes, 8) + 4 + 2
