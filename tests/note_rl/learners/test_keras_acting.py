"""Keras agents act by what the last update has given, and by what anybody has changed since."""

import numpy as np
import pytest

from note_rl.agents import keras as agents
from note_rl.learners.keras import variables
from note_rl.optimizers import keras as optimizers
from note_rl.seeding import seed_everything
from tests.note_rl.samples import sample

OBS = np.linspace(-1.0, 1.0, 6, dtype=np.float32).reshape(3, 2)


@pytest.fixture
def read_apart(monkeypatch):
    """How many variables were read by a call of TensorFlow for that."""
    counts, ordinary = [], variables._read_together

    def counting(several):
        counts.append(len(several))
        return ordinary(several)

    monkeypatch.setattr(variables, "_read_together", counting)
    return counts


def learning(make=agents.DQN, jit=False):
    seed_everything(3)
    agent = make(2, (8,), 3)
    agent.learner.prepare(optimizers.adam(agent.param, 0.05), None, (), jit)
    agent.learner.act(OBS)
    return agent


@pytest.fixture(scope="module")
def traced():
    """An agent that is traced once: what is done to its parameters is no matter to other tests."""
    return learning()


def updated(agent, seed=0):
    assert not agent.learner.update(sample(2, 4, seed=seed), {}).diverged


def expected(agent):
    return agent.learner._framework_act(OBS)


@pytest.mark.parametrize(
    ("make", "jit"),
    [
        pytest.param(agents.DQN, True, marks=pytest.mark.slow),  # in test_xla.py an agent acts by what XLA has given
        (agents.DuelingDQN, False),
    ],
)
def test_an_update_brings_what_is_acted_by(read_apart, make, jit):
    check_an_update(learning(make, jit), read_apart)


def check_an_update(agent, read_apart):
    before = agent.learner.act(OBS)
    for seed in range(3):
        updated(agent, seed)
        read_apart.clear()
        answers = agent.learner.act(OBS)
        assert read_apart == []
        np.testing.assert_allclose(answers, expected(agent), rtol=1e-5, atol=1e-6)
    assert np.abs(answers - before).max() > 0.05


def test_an_update_of_a_perceptron_does_too(traced, read_apart):
    check_an_update(traced, read_apart)


def test_what_changes_after_the_update_is_read(traced, read_apart):
    agent = traced
    updated(agent)
    agent.q_net.set_weights([2.0 * weight for weight in agent.q_net.get_weights()])
    agent.learner.actor.parameters_changed()
    read_apart.clear()
    np.testing.assert_allclose(agent.learner.act(OBS), expected(agent), rtol=1e-5, atol=1e-6)
    assert read_apart == [4]
    state = agent.learner.get_state()
    updated(agent, 1)
    agent.learner.set_state(state)
    np.testing.assert_allclose(agent.learner.act(OBS), expected(agent), rtol=1e-5, atol=1e-6)


def test_an_update_that_is_undone_leaves_the_agent_acting_as_before(traced):
    agent = traced
    updated(agent)
    before = agent.learner.act(OBS)
    spoiled = sample(2, 4)
    spoiled.reward[1, 0] = np.nan
    assert agent.learner.update(spoiled, {}).diverged
    np.testing.assert_array_equal(agent.learner.act(OBS), before)


def test_an_unannounced_change_takes_effect_with_the_next_update(traced, read_apart):
    agent = traced
    updated(agent)
    agent.q_net.layers[-1].bias.assign([5.0, 0.0, 0.0])  # without a notice, but the next update reads it
    updated(agent, 1)
    np.testing.assert_allclose(agent.learner.act(OBS), expected(agent), rtol=1e-5, atol=1e-6)
