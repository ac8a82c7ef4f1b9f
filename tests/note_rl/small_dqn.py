"""A DQN of four hidden units, trained for a few episodes of five steps."""

import pytest

from note_rl.policy import EpsGreedyQPolicy
from tests.note_rl.frameworks import frameworks
from tests.note_rl.small_environments import Counting

BOTH = pytest.mark.parametrize("framework", frameworks())
ONCE = pytest.mark.parametrize("framework", frameworks()[:1])  # what happens outside the frameworks
QUIET = {"p": 0, "jit_compile": False}


def dqn(framework, env=lambda: Counting(5), kind=None, **settings):
    agent = (kind or framework.agents.DQN)(hidden_size=(4,), env=env)
    told = {
        "policy": EpsGreedyQPolicy(0.1),
        "pool_size": 50,
        "batch": 4,
        "num_updates": 1,
        "update_batches": 1,
        "seed": 1,
    }
    agent.set(**{**told, **settings})
    return agent


def train(framework, agent, episodes=3, **options):
    return agent.train(optimizer=framework.optimizers.adam(agent.param, 1e-2), episodes=episodes, **QUIET, **options)
