"""Losses that do in Python what tracing would do once only: their steps are taken untraced, which is said by name."""

import logging
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from note_rl.errors import AgentContractError
from tests.note_rl.learners.keras.moved_agents import Agent, moved
from tests.note_rl.samples import sample

pytestmark = pytest.mark.usefixtures("said_anew")

COUNT = 0

Loss = Callable[[Any, Any], Any]


@pytest.fixture(autouse=True)
def _as_before(monkeypatch):
    monkeypatch.setattr(Agent, "seen", 0)
    monkeypatch.setitem(globals(), "COUNT", 0)


def counting(agent, r):
    agent.counter += 1
    return agent.counter


def counting_within(agent, r):
    agent.held["n"][0] += 1
    agent.held["space"].n += 1
    return (agent.held["n"][0] + agent.held["space"].n) / 2


def counting_in_the_module(agent, r):
    global COUNT
    COUNT += 1
    return COUNT


def counting_in_the_class(agent, r):
    type(agent).seen += 1
    return agent.seen


def averaging(agent, r):
    agent.counter = agent.counter + tf.ones([])
    return agent.counter


@pytest.mark.parametrize(
    ("factor", "name"),
    [
        (counting, "self.counter"),
        (counting_within, "self.held"),
        (counting_in_the_module, "global COUNT"),
        (counting_in_the_class, "Agent.seen"),
        (averaging, "self.counter"),
    ],
)
def test_counts_are_right_and_named(factor, name, caplog):
    with caplog.at_level(logging.WARNING):
        agent, distance = moved(factor)
    assert distance == 1 + 2 + 3 + 4
    [said] = [record.message for record in caplog.records if record.name.startswith("note_rl")]
    assert f"changes {name}: its gradient steps are taken untraced" in said
    assert "tf.Variable" in said
    assert agent.learner._update.compilation.untraced


def test_a_count_of_a_layer_is_seen(caplog):
    class Counts(keras.layers.Layer):
        count = 0

        def call(self, x):
            self.count += 1
            return x * float(self.count)

    layer = Counts()
    agent = Agent(lambda agent, r: tf.reduce_sum(agent.layer(tf.ones((1, 1)))))
    agent.layer = layer
    agent.learner.prepare(keras.optimizers.SGD(1.0), None, (), False)
    agent.learner.update(sample(4, 4), {})
    assert float(agent.w[0]) == 1 + 2 + 3 + 4
    assert "changes self.layer" in caplog.text


@pytest.mark.parametrize(
    "factor",
    [
        lambda agent, r: float(r.numpy().sum()),
        lambda agent, r: float(tf.reduce_sum(r)),
        lambda agent, r: float(np.asarray(r).sum()),
    ],
)
def test_tensors_that_are_read_as_numbers_are_those_of_each_minibatch(factor, caplog):
    _, distance = moved(factor)
    expected = sum(float(sample(2, 4, seed=seed).reward.sum()) for seed in (0, 1))
    np.testing.assert_allclose(distance, expected, rtol=1e-4)
    assert "takes a tensor for a number" in caplog.text


def test_an_array_that_the_loss_changes_is_changed_in_each_step():
    def doubling(agent, r):
        agent.array *= 2.0
        return float(agent.array[0])

    agent = Agent(doubling)
    agent.array = np.ones(1, np.float32)
    agent.learner.prepare(keras.optimizers.SGD(1.0), None, (), False)
    agent.learner.update(sample(3, 4), {})
    assert float(agent.w[0]) == 2 + 4 + 8


def table(agent, r):
    if agent.table is None:
        agent.table = np.full(3, 2.0, np.float32)
    return float(agent.table[1])


def kept(agent, r):
    agent.last = tf.reduce_mean(r)
    agent.kind = "loss"
    return 2.0 + 0.0 * agent.last


@pytest.mark.parametrize("factor", [table, kept])
def test_what_is_made_once_or_is_a_result_keeps_nothing_from_being_traced(factor, caplog):
    agent, distance = moved(factor)
    assert distance == 4 * 2.0
    assert not agent.learner._update.compilation.untraced
    assert caplog.text == ""


def test_where_all_must_be_traced_it_is_refused():
    agent = Agent(counting)
    agent.learner._update.always_traced = True
    agent.learner.prepare(keras.optimizers.SGD(1.0), None, (), False)
    with pytest.raises(AgentContractError, match=r"Agent changes self\.counter, .* all is traced: .*tf\.Variable"):
        agent.learner.update(sample(1, 4), {})
    assert agent.counter == 0


def test_action_follows_what_it_changes_and_reads(caplog):
    class Acting(Agent):
        def action(self, s):
            self.counter += 1
            return s * float(self.counter) * self.held["n"][0]

    agent = Acting(counting)
    agent.held["n"][0] = 1
    answers = [float(agent.learner.act(np.ones((1, 2), np.float32))[0, 0]) for _ in range(3)]
    agent.held["n"][0] = 2
    assert [*answers, float(agent.learner.act(np.ones((1, 2), np.float32))[0, 0])] == [1.0, 2.0, 3.0, 8.0]
    assert "Acting.action() changes self.counter: it is called untraced" in caplog.text
