"""Agents in PyTorch, minibatches and learners by which recorded steps are tested."""

from functools import partial

import numpy as np
import torch

from note_rl import RL_pytorch
from note_rl.agents import pytorch as agents
from note_rl.agents.pytorch.networks import MLP
from note_rl.optimizers.pytorch import adam
from note_rl.seeding import seed_everything
from note_rl.types import Sample

LONG = 10_000  # gradient steps to come, for which recording pays and compiling does not
EXTRAS = {
    "PPO": {"log_prob_old": (), "advantage": (), "return_": (), "value_old": ()},
    "AlphaZero": {"behaviour": (2,), "return_": ()},
    "TD3": {"next_noise": (1,)},
    "SAC": {"noise": (1,), "next_noise": (1,)},
    "Rainbow": {"q_noise": (51,), "target_q_noise": (51,), "choice_q_noise": (51,)},
    "CrossQ": {"noise": (1,), "next_noise": (1,)},
    "TQC": {"noise": (1,), "next_noise": (1,)},
    "REDQ": {"noise": (1,), "next_noise": (1,), "draws": (4,)},
}
PARTS = {  # of which DQN is made under these names
    "Rainbow": {"double": True, "dueling": True, "stream_size": 4, "values": "categorical", "num_atoms": 5},
    "QRDQN": {"values": "quantiles", "num_quantiles": 3},
}
EACH, NONE = (True,) * 4, (False,) * 4
DISCRETE = ("DQN", "DoubleDQN", "DuelingDQN", *PARTS, "PPO")
NAMES = (*DISCRETE, "DDPG", "TD3", "SAC")
CHOOSING = (*DISCRETE, "SACDiscrete", "AlphaZero")
OPTIONS = {
    "CrossQ": {"critic_hidden_size": (8,)},
    "TQC": {"num_quantiles": 4, "num_dropped_per_critic": 1},
    "REDQ": {"num_critics": 4, "num_target_critics": 2, "critic_layer_norm": True},
}
CLASSES = {"REDQ": "SAC"}  # of those that are no class of their own


def minibatches(name="DQN", sync=(False, True, False, False, True), batch_size=6, seed=0):
    rng = np.random.default_rng(seed)
    shape = (len(sync), batch_size)
    obs_size = 4 if name in CHOOSING else 3

    def numbers(*inner):
        return rng.normal(size=(*shape, *inner)).astype(np.float32)

    action = rng.integers(2, size=shape).astype(np.int32) if name in CHOOSING else np.tanh(numbers(1))
    terminated = (rng.random(shape) < 0.3).astype(np.float32)
    return Sample(
        **{"obs": numbers(obs_size), "action": action, "reward": numbers(), "next_obs": numbers(obs_size)},
        **{"terminated": terminated, "discount": 0.9 * (1 - terminated), "sync": np.array(sync)},
        extras={key: numbers(*inner) for key, inner in EXTRAS.get(name, {}).items()},
        weights=None if name in ("PPO", "AlphaZero") else rng.random(shape).astype(np.float32),
    )


def learner_of(agent, jit, make=adam, clip=0.5, names=(), expected=LONG):
    several = isinstance(agent.param[0], list)
    optimizer = [make(group, 1e-2) for group in agent.param] if several else make(agent.param, 1e-2)
    agent.learner.prepare(optimizer, clip, names, jit)
    agent.learner.expect(expected)
    return agent.learner


def built_in(name, **options):
    seed_everything(0)
    env = "CartPole-v1" if name in CHOOSING else "Pendulum-v1"
    if name == "Rainbow":
        options["network"] = partial(MLP, hidden_sizes=(8,), noisy_std=0.5)
    if name in PARTS:
        return agents.DQN(hidden_size=(8,), env=env, **PARTS[name], **options)
    return getattr(agents, CLASSES.get(name, name))(hidden_size=(8,), env=env, **OPTIONS.get(name, {}), **options)


def assert_same_state(one, other, **tolerance):
    theirs = other.get_state()
    for key, values in one.get_state().items():
        np.testing.assert_allclose(values, theirs[key], err_msg=key, **tolerance)


class Custom(RL_pytorch):
    """One parameter and a loss given as a function; may be recorded."""

    traceable = True
    couples_samples = True

    def __init__(self, loss):
        super().__init__()
        self.w = torch.ones(4, requires_grad=True)
        self.param = [self.w]
        self.count = 0
        self.loss = loss

    def action(self, s):
        return s

    def __call__(self, s, a, next_s, r, d):
        return self.loss(self, s, r)


def stages(learner):
    return {due: trace.program.stage for (_, due), trace in learner._steps.traces._known.items()}


def wholes(learner):
    programs = [trace.program for trace in learner._steps.traces._known.values()]
    return [one for one in programs if one.includes.optimizers]
