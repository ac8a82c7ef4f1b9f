"""Collecting in worker processes."""

import logging
from collections.abc import Mapping
from typing import Any

import numpy as np
from gymnasium.vector import VectorEnv

from note_rl.adaptive.scheduled import ADAPTABLE, numbers_of
from note_rl.collect.acting import PolicyRunner
from note_rl.collect.base import Collecting
from note_rl.collect.joining import columns_of, joined, split, steps_of
from note_rl.collect.workers.messages import WorkerConfig
from note_rl.collect.workers.parameters import SharedParameters
from note_rl.collect.workers.pickling import pickled, pickled_environments, pickled_policy, pickled_recipe
from note_rl.collect.workers.running import RunningWorkers
from note_rl.collect.workers.worker import count_steps
from note_rl.environments import VectorEnvironment, check_listed, make_environments
from note_rl.environments.multi_agent import joint_environments
from note_rl.errors import CheckpointError, EnvironmentMismatchError, say_once
from note_rl.learners.base import Learner
from note_rl.policy import Policy, PolicyPerEnvironment
from note_rl.seeding import generator
from note_rl.settings import Settings
from note_rl.settings.workers import WorkerSettings
from note_rl.types import Array, Episode, Steps, nested, under

_log = logging.getLogger(__name__)
_SPAN = 16  # steps that workers take before it is looked whether an episode has ended


class PoolCollector(Collecting):
    """Lets worker processes collect, several environments each; they live as long as a training run.

    Each worker is an ordinary `Collector` with random numbers of its own. An environment has the same episodes
    whichever worker it belongs to. If a phase is to last until an episode ends, the workers are asked for as many
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
        self.policy = policy
        self._agent = agent
        self._settings = settings
        self._workers: WorkerSettings = settings.workers
        self._seed = seed
        self._frame_stack = settings.experience.frame_stack
        given = agent.env
        env = given
        if isinstance(given, list | tuple):
            check_listed(given)
            env = given[:1]
        if settings.multi_agent:
            env = joint_environments(env, getattr(agent, "reward_done_func_ma", None))
        if isinstance(env, VectorEnv):
            raise EnvironmentMismatchError(
                f"worker processes step single environments, and env is a vector of {env.num_envs}: leave pool_network "
                "out, or give env as an id or a factory of one environment"
            )
        self._shown = VectorEnvironment(make_environments(env, 1), seed)
        self.action_space, self.observation_space = self._shown.action_space, self._shown.observation_space
        self.goal_layout = self._shown.goal_layout
        assert not isinstance(settings.num_envs, str), "settled by the agent"
        self.num_envs = len(given) if isinstance(given, list | tuple) else settings.num_envs or 1
        policy.bind(self._shown.action_space, self.num_envs)
        self._places = self._places_of_workers()
        self._running: RunningWorkers | None = None
        self._stored: dict[str, Array] = {}  # where workers were when they last ended, by worker
        self._waiting: tuple[Steps, list[Episode]] | None = None  # collected, not given to anybody yet
        self._span = _SPAN
        self._lost = False

    def _places_of_workers(self) -> list[list[int]]:
        """Which environments each worker has."""
        if self._workers.processes > self.num_envs:
            say_once(
                _log,
                f"processes={self._workers.processes}, but num_envs={self.num_envs}: every worker process needs an "
                "environment at least, so only as many are used",
            )
        order = np.arange(self.num_envs)
        if self._workers.random_places:
            order = generator(self._seed, "workers").permutation(self.num_envs)
        shares = np.array_split(order, min(self._workers.processes, self.num_envs))
        return [sorted(share.tolist()) for share in shares]

    def explore_with(self, policy: Policy, settings: Settings) -> None:
        """See `Collecting`."""
        policy.bind(self._shown.action_space, self.num_envs)
        if policy is not self.policy:
            self._stored = {name: v for name, v in self._stored.items() if name.split("/")[1] != "policy"}
        self.policy, self._settings = policy, settings
        assert settings.workers is not None
        self._workers = settings.workers

    def begin(self, act: PolicyRunner[Learner]) -> bool:
        """Starts the workers; see `Collecting`."""
        self._running = self._start(act)
        exact = self._running.exact and not self._lost
        self._lost = False
        if not exact:
            self._waiting = None
        return exact

    def collect(self, act: PolicyRunner[Learner], num_steps: int | None) -> tuple[Steps, list[Episode]]:
        """See `Collecting`; if overlapping, workers go on with the next steps at once."""
        self._receive()
        if num_steps is None:
            found = self._until_an_episode_ends(act)
            length = self._span
        else:
            found = self._exactly(act, num_steps)
            length = num_steps
        if self._workers.overlapping and self._waiting is None:
            self._ask(act, length)
        return found

    def _exactly(self, act: PolicyRunner[Learner], num_steps: int) -> tuple[Steps, list[Episode]]:
        have = 0 if self._waiting is None else len(self._waiting[0].ended)
        if have < num_steps:
            self._ask(act, num_steps - have)
            self._receive()
        assert self._waiting is not None
        steps, episodes = self._waiting
        self._waiting = None
        if len(steps.ended) > num_steps:
            steps, later = split(steps, num_steps)
            num_ended = int(steps.ended.sum())
            self._waiting = later, episodes[num_ended:]
            episodes = episodes[:num_ended]
        return steps, episodes

    def _until_an_episode_ends(self, act: PolicyRunner[Learner]) -> tuple[Steps, list[Episode]]:
        if self._waiting is None:
            self._ask(act, self._span)
            self._receive()
        while self._waiting is None or not self._waiting[1]:
            self._ask(act, _SPAN)
            self._receive()
        found, self._waiting = self._waiting, None
        self._span = int(found[0].ended.any(axis=1).argmax()) + 1
        return found

    def _ask(self, act: PolicyRunner[Learner], num_steps: int) -> None:
        assert self._running is not None, "begin() comes first"
        self._running.ask(num_steps, numbers_of(self.policy, {*self._settings.schedules, *ADAPTABLE}), act)

    def _receive(self) -> None:
        """Waits for the steps that were asked for, if any, and puts them behind those that are waiting."""
        if self._running is None or not self._running.asked:
            return
        steps, episodes = self._running.receive()
        self._count(len(steps.ended))
        if self._waiting is not None:
            steps, episodes = joined([self._waiting[0], steps]), self._waiting[1] + episodes
        self._waiting = steps, episodes

    def _count(self, num_steps: int) -> None:
        """Lets the policy of this process, of which other workers may once begin, anneal like those of the workers."""
        if isinstance(self.policy, PolicyPerEnvironment):
            for policy in self.policy.policies:
                count_steps(policy, num_steps)
        else:
            count_steps(self.policy, num_steps * self.num_envs)

    def _start(self, act: PolicyRunner[Learner]) -> RunningWorkers:
        parameters = SharedParameters(act, self._shown.obs, self._frame_stack)
        try:
            jobs, preload = self._jobs(act, parameters)
            return RunningWorkers(jobs, self._agent, parameters, self._workers.start_method, preload)
        except BaseException:
            parameters.close()
            raise

    def _jobs(self, act: PolicyRunner[Learner], parameters: SharedParameters) -> tuple[list[WorkerConfig], list[str]]:
        """What each worker is to do, and the modules that all of them need."""
        agent, reward_done = None, getattr(self._agent, "reward_done_func_ma", None)
        own_method = getattr(reward_done, "__self__", None) is self._agent
        if not parameters.mirrored or (self._settings.multi_agent and own_method):
            agent = pickled_recipe(self._agent)
        if reward_done is not None:
            advice = "define it as a method of the agent"
            reward_done = None if own_method else pickled("reward_done_func_ma", reward_done, advice)
        jobs = [
            WorkerConfig(
                number=number,
                places=places,
                num_envs=self.num_envs,
                seed=self._seed,
                environments=pickled_environments(self._agent.env, places),
                policy=pickled_policy(self.policy, places),
                frame_stack=self._frame_stack,
                multi_agent=self._settings.multi_agent,
                agent=agent,
                reward_done=reward_done,
                activations=parameters.activations,
                weights=parameters.columns,
                num_bytes=parameters.num_bytes,
                state=under(str(number), self._stored),
            )
            for number, places in enumerate(self._places)
        ]
        return jobs, [] if agent is None else [type(act.learner).__module__]

    def check(self) -> None:
        """See `Collecting`."""
        if self._running is not None:
            self._running.check()

    def get_state(self) -> dict[str, Array]:
        """See `Collecting`; waits for steps that are being collected, which are part of the state."""
        self._receive()
        if self._running is not None:
            self._stored = self._running.state()
        state = {
            "workers": np.concatenate([[number] * len(own) for number, own in enumerate(self._places)]),
            "places": np.concatenate(self._places),
            "span": np.array(self._span),
            **nested("worker", self._stored),
        }
        episodes = [self._stored[f"{number}/episode"] for number in range(len(self._places)) if self._stored]
        state["episode"] = np.concatenate(episodes) if episodes else np.zeros(self.num_envs, np.int64)
        if self._waiting is not None:
            steps, ended = self._waiting
            state.update(nested("waiting", columns_of(steps)))
            state["waiting_episodes"] = np.array([(e.return_, e.length, e.env_index) for e in ended]).reshape(-1, 3)
        return state

    def set_state(self, state: Mapping[str, Array]) -> bool:
        """See `Collecting`."""
        mine = self.get_state() if self._running is None else {}
        for name in ("workers", "places"):
            if name not in state or not np.array_equal(state[name], mine[name]):
                raise CheckpointError(
                    f"the checkpoint was written with {_described(state)}, this run has {_described(mine)}: choose "
                    "pool_network, processes, num_envs and random as they were, or take over the parameters only "
                    "(restore_param)"
                )
        self._stored = under("worker", state)
        self._span = int(state["span"])
        waiting = under("waiting", state)
        self._waiting = None
        if waiting:
            rows = state["waiting_episodes"]
            self._waiting = steps_of(waiting), [Episode(float(r), int(n), int(e)) for r, n, e in rows]
        return True

    def end(self, keep: bool) -> None:
        """See `Collecting`."""
        if self._running is None:
            return
        try:
            if keep:
                self._receive()
                self._stored = self._running.state()
        finally:
            running, self._running = self._running, None
            running.end()
            self._lost = not keep
            if not keep:
                self._waiting = None

    def close(self) -> None:
        """Closes the environment that stands for those of the workers."""
        self._shown.close()


def _described(state: Mapping[str, Array]) -> str:
    if "workers" not in state:
        return "environments stepped in the training process"
    workers = state["workers"]
    return f"{len(workers)} environments in {int(workers.max()) + 1} worker processes"
