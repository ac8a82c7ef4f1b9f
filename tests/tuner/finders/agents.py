"""Small agents and awkward optimizers for finders, importable in the processes of their runs."""

import contextlib
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium as gym
import torch
from torch import Tensor

from note_rl.agents.pytorch import DQN, PPO
from note_rl.policy import EpsGreedyQPolicy, SoftmaxPolicy
from note_rl.rl_pytorch import RL_pytorch
from tuner.executors.inline import InlineExecutor
from tuner.finders import FinderPlace

CURVATURE = 4.0


class Quadratic(RL_pytorch):
    """Its loss is curvature / 2 * w^2 whatever happens: SGD diverges above a rate of 2 / curvature."""

    def __init__(self, curvature: float = CURVATURE, env: Any = "CartPole-v1") -> None:
        super().__init__()
        self.env = env
        self.curvature = curvature
        self.w = torch.nn.Parameter(torch.tensor([3.0]))
        self.param = [self.w]

    def action(self, s: Tensor) -> Tensor:
        return torch.zeros(len(s), 2) + 0.0 * self.w

    def __call__(self, s: Tensor, a: Tensor, next_s: Tensor, r: Tensor, d: Tensor) -> Tensor:
        return 0.5 * self.curvature * self.w.square().sum()


class OtherQuadratic(Quadratic):
    """Of another loss."""

    def __call__(self, s: Tensor, a: Tensor, next_s: Tensor, r: Tensor, d: Tensor) -> Tensor:
        return self.w.square().sum()


class Crashing(torch.optim.SGD):
    """Raises at its first step."""

    def step(self, closure: Any = None) -> Any:
        raise RuntimeError("this optimizer is broken")


class Dying(torch.optim.SGD):
    """Takes its process along."""

    def step(self, closure: Any = None) -> Any:
        os._exit(3)


class Hanging(torch.optim.SGD):
    """Never comes back from its first step."""

    def step(self, closure: Any = None) -> Any:
        time.sleep(600.0)


class Locked(gym.Wrapper):
    """An environment that cannot be pickled."""

    def __init__(self) -> None:
        super().__init__(gym.make("CartPole-v1"))
        self.lock = threading.Lock()


REPLAY = {"pool_size": 400, "batch": 16, "num_updates": 2, "train_freq": 4, "learning_starts": 200, "seed": 3}


def quadratic(curvature: float = CURVATURE, env: Any = "CartPole-v1", kind: type[Quadratic] = Quadratic) -> Quadratic:
    agent = kind(curvature, env)
    agent.set(policy=EpsGreedyQPolicy(0.5), **REPLAY)
    return agent


def small_dqn() -> DQN:
    torch.manual_seed(0)
    agent = DQN(hidden_size=16)
    agent.set(policy=EpsGreedyQPolicy(0.5), **REPLAY)
    return agent


def small_ppo() -> PPO:
    torch.manual_seed(0)
    agent = PPO(hidden_size=16)
    agent.set(policy=SoftmaxPolicy(), PPO=True, num_envs=2, rollout_steps=64, num_epochs=4, batch=32, seed=3)
    return agent


def params(agent: Any) -> list[Tensor]:
    groups = agent.param
    return [one for group in groups for one in group] if isinstance(groups[0], list) else list(groups)


def inline(folder: Path, storage: str = "memory") -> FinderPlace:
    """Runs in this process: quick, and without protection."""
    return FinderPlace(storage=storage, folder=folder / "studies", executor=executor)


@contextlib.contextmanager
def executor() -> Iterator[InlineExecutor]:
    with InlineExecutor() as made:
        yield made
