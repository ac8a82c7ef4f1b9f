"""Acting in NumPy agrees with the framework."""

import numpy as np
import pytest
from gymnasium import spaces

from note_rl.learners.numpy_policy import NumpyPolicy, verified_mirror
from note_rl.seeding import seed_everything
from tests.note_rl.frameworks import frameworks
from tests.note_rl.learners.dqn_agents import dqn
from tests.note_rl.samples import ready, sample
from tests.note_rl.small_environments import Counting

pytestmark = pytest.mark.parametrize("framework", frameworks())


def test_who_overrides_action_is_not_mirrored(framework):
    class Masked(framework.agents.DQN):
        def action(self, s):
            scores = super().action(s)
            return scores - 1e9 * framework.numbers(s > 5.0)

    seed_everything(0)
    agent = Masked(hidden_size=(8,), env=Counting)
    assert agent.learner.act(np.zeros((1, 2), np.float32)).max() > -1e3
    assert agent.learner.act(np.full((1, 2), 9.0, np.float32)).max() < -1e8
    assert not agent.learner.actor.is_mirrored()


def test_weights_that_were_changed_from_outside_are_those_acted_by(framework):
    agent, other = dqn(framework), dqn(framework, seed=1)
    obs = np.ones((1, 2), np.float32)
    expected = other.learner.act(obs)
    assert not np.allclose(agent.learner.act(obs), expected)
    agent.q_net = other.q_net
    agent.greedy_in(spaces.Discrete(2))
    np.testing.assert_array_equal(agent.learner.act(obs), expected)


def test_acting_in_numpy_agrees_with_the_framework_and_follows_updates(framework):
    agent = dqn(framework)
    learner = ready(framework, agent)
    obs = np.random.default_rng(0).normal(size=(5, 2)).astype(np.float32)
    first = learner.act(obs)
    assert learner.actor.is_mirrored()
    np.testing.assert_allclose(first, learner._framework_act(obs), rtol=1e-5, atol=1e-6)
    learner.update(sample(4), {})
    np.testing.assert_allclose(learner.act(obs), learner._framework_act(obs), rtol=1e-5, atol=1e-6)
    assert not np.allclose(learner.act(obs), first)


def test_ppo_acts_with_probabilities(framework):
    agent = framework.agents.PPO(hidden_size=(8,), env=Counting)
    obs = np.random.default_rng(0).normal(size=(5, 2)).astype(np.float32)
    np.testing.assert_allclose(agent.learner.act(obs).sum(1), np.ones(5), rtol=1e-5)
    np.testing.assert_allclose(agent.learner.act(obs), agent.learner._framework_act(obs), rtol=1e-5)


def test_layers_that_do_not_describe_the_agent_are_not_used(framework):
    layers = dqn(framework).acting_layers
    obs = np.ones((2, 2), np.float32)
    assert verified_mirror(layers, lambda obs: obs + 1.0, obs) is None


@pytest.mark.parametrize("activation", ["relu", "tanh", "elu", "silu"])
def test_answers_in_numpy_change_neither_observations_nor_weights(framework, activation):
    obs, kernel = np.full((2, 2), -0.5, np.float32), np.eye(2, dtype=np.float32)
    layers = [(kernel, np.zeros(2, np.float32), activation), (kernel, np.ones(2, np.float32), "linear")]
    mirror = NumpyPolicy(lambda: layers)
    first, again = mirror(obs), mirror(obs)
    np.testing.assert_array_equal(first, again)
    assert first is not again
    assert (obs == -0.5).all()
    np.testing.assert_array_equal(kernel, np.eye(2))
