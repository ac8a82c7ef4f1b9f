"""An agent without a framework, whose actions say how often it has been updated, and environments to watch it in."""

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from note_rl.collect.policy_runner import PolicyRunner
from note_rl.collect.workers.pool_network import PoolCollector
from note_rl.learners.numpy_policy import Actor
from note_rl.policy import NoisyPolicy
from note_rl.settings import Budget, ReplaySettings, RolloutSettings, Settings, WorkerSettings
from note_rl.training.agent import Agent
from note_rl.types import Sample, TrainResult, Update


class CountingLearner:
    """One parameter: the number of updates, which is also the action."""

    def __init__(self, agent: Any) -> None:
        self.agent = agent
        self.actor = Actor(agent, self._act, mirrored=agent.mirrored)
        self.seen: list[Sample] = []

    def _act(self, obs: Any, index: Any = None) -> Any:
        return np.tile(self.agent.count + self.agent.offset, (len(obs), 1))

    def act(self, obs: Any) -> Any:
        return self.actor(obs)

    def expect(self, num_gradient_steps: float) -> None:
        pass

    def prepare(self, *arguments: Any) -> None:
        pass

    def copies_targets(self) -> bool:
        return False

    def optimizer_numbers(self) -> list[Any]:
        return []

    def update(self, sample: Sample, hyperparameters: Any) -> Update:
        self.seen.append(sample)
        self.agent.count = self.agent.count + 1
        self.actor.parameters_changed()
        if self.agent.fails_at == self.agent.count:
            raise ArithmeticError("stopped here")
        time.sleep(self.agent.update_s)
        return Update(np.full((sample.num_gradient_steps, 1), self.agent.count, np.float32))

    def get_state(self) -> dict[str, Any]:
        further = getattr(self.agent, "further", None)
        return {"agent/count": self.agent.count.copy()} | ({} if further is None else {"agent/further": further})

    def set_state(self, state: Any) -> None:
        self.agent.count = np.array(state["agent/count"])
        self.actor.parameters_changed()


class CountingAgent(Agent):
    def __init__(self, env: Any, mirrored: bool = True) -> None:
        super().__init__()
        self.env = env
        self.mirrored = mirrored
        self.count = np.zeros(1, np.float32)
        self.param = [self.count]
        self.optimizer = "any"
        self.fails_at = None
        self.update_s = 0.0
        self.offset = 0.0

    def _make_learner(self) -> Any:
        return CountingLearner(self)

    def acting_layers(self) -> Any:
        size = 2
        return [(np.zeros((size, 1), np.float32), self.count, "linear")]

    def __call__(self, *columns: Any) -> Any:
        raise AssertionError

    def action(self, s: Any) -> Any:
        raise AssertionError

    def train(self, total_steps: int | None = None, episodes: int | None = None, **options: Any) -> TrainResult:
        return self._train(None, Budget(total_steps=total_steps, episodes=episodes), {"p": 0, **options})


@contextmanager
def running_pool(agent: Any, policy: Any, seed: int = 5) -> Iterator[tuple[PoolCollector, PolicyRunner[Any]]]:
    """The pool of an agent, without training, and how the agent acts."""
    act = PolicyRunner(agent.learner, agent.obs_normaliser, agent.settings.multi_agent)
    pool = PoolCollector(agent, agent.settings, policy, seed)
    pool.begin(act)
    try:
        yield pool, act
    finally:
        pool.end(keep=False)


def settings(
    workers: WorkerSettings | None, *, rollout: int | None = None, num_envs: int = 4, policy: Any = None, **options: Any
) -> Settings:
    """Of one update per phase: a rollout of `rollout` steps, or an episode."""
    experience: Any = (
        ReplaySettings(capacity=5000, batch_size=1, train_freq=4, gradient_steps=1)
        if rollout is None
        else RolloutSettings(num_steps=rollout, batch_size=rollout * num_envs, num_epochs=1)
    )
    policy = policy or NoisyPolicy()
    return Settings(experience=experience, policy=policy, num_envs=num_envs, seed=5, workers=workers, **options)


class Watched(gymnasium.Env[np.ndarray, np.ndarray]):
    """Shows (step, random number of the episode); the reward is the action; lasts 3 to 8 steps, as the seed says.

    Args:
        step_s: What a step takes.
        fails_at: Action at which a step fails.
    """

    def __init__(self, step_s: float = 0.0, fails_at: float | None = None) -> None:
        self.observation_space = spaces.Box(-np.inf, np.inf, (2,), np.float32)
        self.action_space = spaces.Box(-1e6, 1e6, (1,), np.float32)
        self.step_s = step_s
        self.fails_at = fails_at

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(seed=seed)
        self.mark = self.np_random.random()
        self.length = int(self.np_random.integers(3, 9))
        self.number = 0
        return self._observation(), {}

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        time.sleep(self.step_s)
        if self.fails_at is not None and action[0] >= self.fails_at:
            raise ZeroDivisionError("the bridge has collapsed")
        self.number += 1
        return self._observation(), float(action[0]), self.number == self.length, False, {}

    def _observation(self) -> np.ndarray:
        return np.array([self.number, self.mark], np.float32)


class OldGym(Watched):
    """step() as in Gym before 0.26."""

    def step(self, action: np.ndarray) -> Any:
        return (*super().step(action)[:3], {})


class Inside(Watched):
    """Shows (number of its process, whether a framework is imported there)."""

    def _observation(self) -> np.ndarray:
        return np.array([os.getpid(), any(name in sys.modules for name in ("torch", "tensorflow"))], np.float32)


class Tidy(Watched):
    """Notes in a folder, under its random number, that it was closed, and prints it."""

    def __init__(self, folder: str, **arguments: Any) -> None:
        super().__init__(**arguments)
        self.folder = folder

    def close(self) -> None:
        sys.stdout.write("closed\n")
        (Path(self.folder) / f"{self.mark}").touch()


class Dying(Watched):
    """Its process is killed in the middle of the second episode."""

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        if action[0] >= 1.0:
            os.kill(os.getpid(), 9)
        return super().step(action)


class Forking(Dying):
    """Has a forked child that outlives it, whose number is noted in a file."""

    def __init__(self, note: str) -> None:
        super().__init__()
        child = os.fork()
        if child == 0:
            time.sleep(60.0)
            os._exit(0)
        with Path(note).open("a") as file:
            file.write(f"{child}\n")
