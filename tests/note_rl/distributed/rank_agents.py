"""Agents that several ranks train together."""

import torch

from note_rl.agents.pytorch import DQN
from note_rl.policy import EpsGreedyQPolicy
from note_rl.seeding import seed_everything

CLIP = 0.05  # so low that it always acts: averages are taken before

REPLAY = {"batch": 16, "pool_size": 500, "train_freq": 8, "num_updates": 4, "learning_starts": 32}


def dqn(**settings):
    agent = DQN(hidden_size=(8,))
    replay = {"batch": 16, "pool_size": 500, "train_freq": 8, "num_updates": 4, "learning_starts": 32}
    agent.set(
        policy=EpsGreedyQPolicy(0.2), **{**replay, "update_batches": 4, "max_grad_norm": CLIP, **settings}, seed=1
    )
    return agent, [torch.optim.Adam(agent.param, 1e-3)], 120


def made(make):
    seed_everything(0)
    return make()


def parameters(agent):
    return {name: values for name, values in agent.learner.get_state().items() if name.startswith("agent/")}


def optimizer_of(agent, optimizers):
    """One optimizer, or the list, for a copy of the agent whose optimizers were made for another."""
    groups = agent.learner.groups
    owners = [[p for group in groups for p in group]] if len(optimizers) == 1 else groups
    several = [type(one)(owned, **one.defaults) for one, owned in zip(optimizers, owners, strict=True)]
    return several[0] if len(several) == 1 else several
