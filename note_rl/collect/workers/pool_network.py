"""Collecting in worker processes, for the trainer the same as collecting in this one."""

import logging
from collections.abc import Mapping
from typing import Any

import numpy as np
from gymnasium.vector import VectorEnv

from note_rl.adaptive.scheduled import ADAPTABLE, numbers_of
from note_rl.collect.base import Collecting
from note_rl.collect.policy_runner import PolicyRunner
from note_rl.collect.workers.configs import WorkerPlan
from note_rl.collect.workers.environment_worker import count_steps
from note_rl.collect.workers.prefetched_steps import WaitingSteps
from note_rl.collect.workers.shared_parameters import SharedParameters
from note_rl.collect.workers.worker_group import RunningWorkers
from note_rl.environments import VectorEnvironment, check_listed, make_environments
from note_rl.environments.multi_agent import joint_environments
from note_rl.errors import CheckpointError, EnvironmentMismatchError, say_once
from note_rl.learners.base import Learner
from note_rl.policy import Policy, PolicyPerEnvironment
from note_rl.seeding import generator
from note_rl.settings import Settings
from note_rl.settings.switch_names import NUM_ENVS, POOL_NETWORK, PROCESSES
from note_rl.settings.workers import WorkerSettings
from note_rl.support.memory import LEAST_OF_A_FORK, check_processes
from note_rl.support.setting_fields import named
from note_rl.types import Array, Episode, Steps, nested, under

_log = logging.getLogger(__name__)
_SPAN = 16  # steps that workers take before it is looked whether an episode has ended


class PoolCollector(Collecting):
    """Lets worker processes collect, several environments each; they live as long as a training run.

    Each worker is an ordinary `Collector` with random numbers of its own. An environment has the same episodes
    whichever worker it belongs to. If an iteration is to last until an episode ends, the workers are asked for as many
    steps as it took the last time, then for some more until one has ended.

    Args:
        agent: Whose environments these are; sent to workers if it cannot be mirrored.
        settings: With `workers`.
        policy: How to explore; workers get copies, and its scheduled numbers with every rollout.
        seed: Root of all randomness.

    Raises:
        NoteRLError: Environments that cannot be made or do not fit the policy.
    """

    def __init__(self, agent: Any, settings: Settings, policy: Policy, seed: int) -> None:
        assert settings.workers is not None
        assert not isinstance(settings.num_envs, str), "settled by the agent"
        self.policy = policy
        self._agent = agent
        self._settings = settings
        self._workers: WorkerSettings = settings.workers
        self._seed = seed
        self._shown = _one_environment(agent, settings, seed)
        self.action_space, self.observation_space = self._shown.action_space, self._shown.observation_space
        self.goal_layout = self._shown.goal_layout
        self.num_envs = len(agent.env) if isinstance(agent.env, list | tuple) else settings.num_envs or 1
        policy.bind(self.action_space, self.num_envs)
        self._places = self._places_of_workers()
        self._running: RunningWorkers | None = None
        self._stored: dict[str, Array] = {}  # where workers were when they last ended, by worker
        self._waiting = WaitingSteps()
        self._span = _SPAN  # steps that the last episode to end took, which are asked for at first
        self._lost = False  # workers were ended at once, and their running episodes with them

    def _places_of_workers(self) -> list[list[int]]:
        """Returns which environments each worker has."""
        if self._workers.processes > self.num_envs:
            say_once(
                _log,
                "{}, but {}: every worker process needs an environment at least, so only as many are used",
                *(PROCESSES.at(self._workers.processes), NUM_ENVS.at(self.num_envs)),
            )
        number = min(self._workers.processes, self.num_envs)
        check_processes(PROCESSES, number, LEAST_OF_A_FORK)
        order = np.arange(self.num_envs)
        if self._workers.random_places:
            order = generator(self._seed, "workers").permutation(self.num_envs)
        shares = np.array_split(order, number)
        return [sorted(share.tolist()) for share in shares]

    def explore_with(self, policy: Policy, settings: Settings) -> None:
        """See `Collecting`."""
        policy.bind(self.action_space, self.num_envs)
        if policy is not self.policy:  # names are WORKER/policy/...: the new one has not come anywhere yet
            self._stored = {name: values for name, values in self._stored.items() if name.split("/")[1] != "policy"}
        self.policy, self._settings = policy, settings
        assert settings.workers is not None
        self._workers = settings.workers

    def begin(self, act: PolicyRunner[Learner]) -> bool:
        """Starts the workers; see `Collecting`."""
        self._running = self._start(act)
        exact = self._running.exact and not self._lost
        self._lost = False
        if not exact:
            self._waiting.drop()
        return exact

    def _start(self, act: PolicyRunner[Learner]) -> RunningWorkers:
        parameters = SharedParameters(act, self._shown.obs, self._settings.experience.frame_stack)
        try:
            plan = WorkerPlan(self._agent, self._settings, self._seed, self._places)
            configs = plan.configs(self.policy, parameters, self._stored)
            # the framework's import, which takes seconds, is needed only where agents are made again
            preload = [type(act.learner).__module__] if any(config.agent is not None for config in configs) else []
            return RunningWorkers(configs, self._agent, parameters, self._workers.start_method, preload)
        except BaseException:
            parameters.close()
            raise

    def collect(self, act: PolicyRunner[Learner], num_steps: int | None) -> tuple[Steps, list[Episode]]:
        """See `Collecting`; if overlapping, workers go on with the next steps at once."""
        self._receive()
        collected = self._until_an_episode_ends(act) if num_steps is None else self._exactly(act, num_steps)
        if self._workers.overlapping and not self._waiting:
            self._ask(act, self._span if num_steps is None else num_steps)
        return collected

    def _exactly(self, act: PolicyRunner[Learner], num_steps: int) -> tuple[Steps, list[Episode]]:
        if len(self._waiting) < num_steps:
            self._ask(act, num_steps - len(self._waiting))
            self._receive()
        return self._waiting.take(num_steps)

    def _until_an_episode_ends(self, act: PolicyRunner[Learner]) -> tuple[Steps, list[Episode]]:
        if not self._waiting:
            self._ask(act, self._span)
            self._receive()
        while not self._waiting.has_ended_episode:
            self._ask(act, _SPAN)
            self._receive()
        steps, episodes = self._waiting.take_all()
        self._span = int(steps.ended.any(axis=1).argmax()) + 1
        return steps, episodes

    def _ask(self, act: PolicyRunner[Learner], num_steps: int) -> None:
        assert self._running is not None, "begin() comes first"
        self._running.ask(num_steps, numbers_of(self.policy, {*self._settings.schedules, *ADAPTABLE}), act)

    def _receive(self) -> None:
        """Waits for the steps that were asked for, if any, and puts them behind those that are waiting."""
        if self._running is None or not self._running.asked:
            return
        steps, episodes = self._running.receive()
        self._count(len(steps.ended))
        self._waiting.add(steps, episodes)

    def _count(self, num_steps: int) -> None:
        """Lets the policy of this process, of which other workers may once begin, anneal like those of the workers."""
        if isinstance(self.policy, PolicyPerEnvironment):
            for policy in self.policy.policies:
                count_steps(policy, num_steps)
        else:
            count_steps(self.policy, num_steps * self.num_envs)

    def check(self) -> None:
        """See `Collecting`."""
        if self._running is not None:
            self._running.check()

    def get_state(self) -> dict[str, Array]:
        """See `Collecting`; waits for steps that are being collected, which are part of the state."""
        self._receive()
        if self._running is not None:
            self._stored = self._running.state()
        episodes = [self._stored[f"{number}/episode"] for number in range(len(self._places)) if self._stored]
        return {
            **self._division(),
            "span": np.array(self._span),
            **nested("worker", self._stored),
            "episode": np.concatenate(episodes) if episodes else np.zeros(self.num_envs, np.int64),
            **self._waiting.get_state(),
        }

    def _division(self) -> dict[str, Array]:
        """Returns all environments in the order of workers, and which worker each belongs to."""
        return {
            "workers": np.concatenate([[number] * len(own) for number, own in enumerate(self._places)]),
            "places": np.concatenate(self._places),
        }

    def set_state(self, state: Mapping[str, Array]) -> bool:
        """See `Collecting`."""
        assert self._running is None, "workers take over where to go on from when they start"
        division = self._division()
        if not all(name in state and np.array_equal(state[name], values) for name, values in division.items()):
            raise CheckpointError(
                "the checkpoint was written with {}, this run has {}: choose {}, {}, {} and {} as they were, or take "
                "over the parameters only (restore_param)",
                *(_described(state), _described(division), POOL_NETWORK, PROCESSES, NUM_ENVS),
                named(WorkerSettings, "random_places"),
            )
        self._stored = under("worker", state)
        self._span = int(state["span"])
        self._waiting.set_state(state)
        return True

    def end(self, keep: bool) -> None:
        """See `Collecting`."""
        if self._running is None:
            return
        keep = keep and not self._running.broken
        try:
            if keep:
                self._receive()
                self._stored = self._running.state()
        finally:
            running, self._running = self._running, None
            running.end()
            self._lost = not keep
            if not keep:
                self._waiting.drop()

    def close(self) -> None:
        """Closes the environment that stands for those of the workers."""
        self._shown.close()


def _one_environment(agent: Any, settings: Settings, seed: int) -> VectorEnvironment:
    """Returns one environment of the agent's, which stands for those of the workers: its spaces, what it shows first.

    Raises:
        NoteRLError: It cannot be made, or steps several at once by itself.
    """
    env = agent.env
    if isinstance(env, list | tuple):
        check_listed(env)
        env = env[:1]
    if settings.multi_agent:
        env = joint_environments(env, getattr(agent, "reward_done_func_ma", None))
    if isinstance(env, VectorEnv):
        raise EnvironmentMismatchError(
            "worker processes step single environments, and env is a vector of {}: leave {} out, or give env as an id "
            "or a factory of one environment",
            *(env.num_envs, POOL_NETWORK),
        )
    return VectorEnvironment(make_environments(env, 1), seed)


def _described(state: Mapping[str, Array]) -> str:
    if "workers" not in state:
        return "environments stepped in the training process"
    workers = state["workers"]
    return f"{len(workers)} environments in {int(workers.max()) + 1} worker processes"
