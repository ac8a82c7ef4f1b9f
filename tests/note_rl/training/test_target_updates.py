"""Where set() says nothing, targets that are copied lag behind nevertheless; in both frameworks."""

import logging

import numpy as np
import pytest

from note_rl import errors
from note_rl.policy import EpsGreedyQPolicy
from note_rl.policy.noise import GaussianWhiteNoiseProcess
from note_rl.seeding import seed_everything
from tests.note_rl.frameworks import frameworks

pytestmark = pytest.mark.parametrize("framework", frameworks())


def following(framework, update):
    """An agent whose target follows its weights by update(agent, target, weights)."""

    class Agent(framework.base()):
        def __init__(self):
            super().__init__()
            self.w = framework.variable(np.ones((4, 2)))
            self.bias = framework.variable(np.zeros(2))
            self.target_w = framework.variable(np.ones((4, 2)))
            self.target_bias = framework.variable(np.zeros(2))
            self.param = [self.w, self.bias]
            self.env, self.calls = "CartPole-v1", 0

        def action(self, s):
            return s @ self.w + self.bias

        def __call__(self, s, a, next_s, r, d):
            return framework.mean(self.action(s)[:, 0] - r)

        def update_param(self):
            self.calls += 1
            update(self, self.target_w, self.w)
            update(self, self.target_bias, self.bias)

    return Agent()


def assign(target, values):
    if hasattr(target, "assign"):
        target.assign(values)
    else:
        target.data.copy_(values)


def by_count(agent, target, weights):
    if agent.calls % 2:
        assign(target, weights * 1.0)


UPDATES = {
    "copy": (lambda agent, target, weights: assign(target, weights * 1.0), True),
    "share": (lambda agent, target, weights: assign(target, 0.995 * target + 0.005 * weights), False),
    "large share": (lambda agent, target, weights: assign(target, 0.1 * target + 0.9 * weights), False),
    "nothing": (lambda agent, target, weights: None, False),
    "every other call": (by_count, False),
}


@pytest.mark.parametrize("name", UPDATES)
def test_a_copy_is_recognised_by_its_effect(framework, name):
    update, copies = UPDATES[name]
    agent = following(framework, update)
    before = agent.learner.get_state()
    assert agent.learner.copies_targets() is copies
    assert agent.calls == 0
    for key, values in agent.learner.get_state().items():
        np.testing.assert_array_equal(values, before[key])


AGENTS = {
    "DQN": ({}, 100),
    "DoubleDQN": ({}, 100),
    "DQN, tau": ({"tau": 0.01}, None),
    "DDPG": ({}, None),
    "TD3": ({}, 2),
    "SAC": ({}, None),
    "CrossQ": ({"critic_hidden_size": 8}, 3),
}


@pytest.mark.parametrize("name", AGENTS)
def test_what_built_in_agents_begin_with(framework, name):
    options, expected = AGENTS[name]
    kind = name.partition(",")[0]
    discrete = "DQN" in kind
    agent = getattr(framework.agents, kind)(
        hidden_size=(8,), env="CartPole-v1" if discrete else "Pendulum-v1", **options
    )
    how = {"policy": EpsGreedyQPolicy(0.1)} if discrete else {"noise": GaussianWhiteNoiseProcess()}
    if kind in ("SAC", "CrossQ"):
        how = {"policy": agent.default_policy()}
    agent.set(**how, learning_starts=1000)
    assert interval_of(framework, agent) == expected
    agent.set(update_batches=7)
    assert interval_of(framework, agent) == 7


def interval_of(framework, agent):
    """Known when training begins."""
    several = isinstance(agent.param[0], list)
    make = framework.optimizers.adam
    optimizer = [make(group, 1e-3) for group in agent.param] if several else make(agent.param, 1e-3)
    agent.train(optimizer=optimizer, total_steps=agent.num_env_steps + 1, p=0, jit_compile=False)
    return agent._trainer.experience.settings.target_update_interval


def test_it_is_said_once_and_only_where_it_was_left_open(framework, caplog, monkeypatch):
    monkeypatch.setattr(errors, "_said", set())
    for told in ({}, {"update_batches": 5}, {}):
        agent = framework.agents.DQN(hidden_size=(8,))
        agent.set(policy=EpsGreedyQPolicy(0.1), learning_starts=1000, **told)
        with caplog.at_level(logging.WARNING):
            interval_of(framework, agent)
    lines = [record.getMessage() for record in caplog.records]
    assert len(lines) == 1
    assert "DQN.update_param() copies" in lines[0]
    assert "every 100 gradient steps; give update_batches" in lines[0]


@pytest.mark.slow_in_keras
@pytest.mark.parametrize("seed", [pytest.param(0), *(pytest.param(seed, marks=pytest.mark.slow) for seed in (1, 2))])
def test_plain_q_learning_does_not_diverge(framework, seed):
    """Without a lag, the values pass 300 by then; no return discounted by 0.99 is above 100."""
    seed_everything(seed)
    agent = framework.agents.DQN(hidden_size=64)
    agent.set(policy=EpsGreedyQPolicy(0.1), seed=seed)
    agent.train(optimizer=framework.optimizers.adam(agent.param, 1e-3), episodes=60, p=0, jit_compile=False)
    obs = np.random.default_rng(0).normal(scale=0.5, size=(256, 4)).astype(np.float32)
    assert agent.num_gradient_steps > 200
    assert np.abs(agent.learner.act(obs)).max() < 60
