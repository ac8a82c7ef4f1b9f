"""Agents of a few units whose hyperparameters are adapted."""

from typing import Any

import numpy as np

from note_rl.policy import EpsGreedyQPolicy, SoftmaxPolicy
from note_rl.seeding import seed_everything
from note_rl.settings import Adaptive
from tests.note_rl.frameworks import Framework
from tests.note_rl.small_environments import Corridor


def ppo(framework: Framework, adaptive: Adaptive | None, learning_rate: float = 1e-3, **options: Any) -> Any:
    make = framework.agents.PPO  # imports what is seeded
    seed_everything(1)
    agent = make(hidden_size=(8,), env=lambda: Corridor())
    arguments = {"PPO": True, "rollout_steps": 16, "num_envs": 4, "batch": 32, "num_epochs": 4, **options}
    agent.set(policy=SoftmaxPolicy(), seed=2, adaptive=adaptive, **arguments)
    agent.optimizer = framework.optimizers.adam(agent.param, learning_rate)
    return agent


def dqn(framework: Framework, adaptive: Adaptive | None, **options: Any) -> Any:
    make = framework.agents.DQN
    seed_everything(1)
    agent = make(hidden_size=(8,), env=lambda: Corridor(), tau=0.1)
    arguments = {"pool_size": 512, "batch": 16, "train_freq": 16, "gradient_steps": 4, "update_batches": 2, **options}
    agent.set(policy=EpsGreedyQPolicy(0.3), seed=2, adaptive=adaptive, **arguments)
    agent.optimizer = framework.optimizers.adam(agent.param, 1e-2)
    return agent


def trained(framework: Framework, agent: Any, total_steps: int = 640, jit: bool = False) -> list[np.ndarray]:
    agent.train(total_steps=total_steps, p=0, jit_compile=jit)
    return framework.parameters(agent)


def same(one: list[np.ndarray], other: list[np.ndarray]) -> bool:
    return all(np.array_equal(*pair) for pair in zip(one, other, strict=True))


QUICK = {"period": 1, "noise_period": 1, "warm_up": 1, "calibration": 2, "smooth": 1.0}

BY_RATIO = {"signals": ["ratio_ess"], "parameters": {"learning_rate": {}, "clip": {}}}
