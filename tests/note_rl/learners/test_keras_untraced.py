"""Losses that do in Python what tracing would do once only: their steps are taken untraced, which is said by name."""

import gc
import itertools
import logging
import os
import pathlib
import random
import time
from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from gymnasium.envs.classic_control import CartPoleEnv

from note_rl import RL, errors
from note_rl.agents.keras import DQN
from note_rl.errors import AgentContractError
from note_rl.policy import GreedyQPolicy
from note_rl.training.callbacks import LambdaCallback
from tests.note_rl.samples import sample
from tests.note_rl.small_environments import Counting

COUNT = 0
Loss = Callable[[Any, Any], Any]


class Agent(RL):
    """Its only weight moves by what its loss says, which is given."""

    seen = 0

    def __init__(self, factor):
        super().__init__()
        self.w = tf.Variable([0.0, 0.0])
        self.param = [self.w]
        self.factor = factor
        self.env = Counting()
        self.counter = 0
        self.held = {"n": [0], "space": SimpleNamespace(n=0)}
        self.table = None
        self.rng = np.random.default_rng(0)
        self.scale = 1.0

    def action(self, s):
        return s * self.w

    def __call__(self, s, a, next_s, r, d):
        return -tf.reduce_sum(self.w) * self.factor(self, r)


@pytest.fixture(autouse=True)
def _as_before(monkeypatch):
    monkeypatch.setattr(Agent, "seen", 0)
    monkeypatch.setitem(globals(), "COUNT", 0)
    monkeypatch.setattr(errors, "_said", set())


def moved(factor):
    """An agent after two blocks of two steps, and how far it has moved."""
    agent = Agent(factor)
    agent.learner.prepare(keras.optimizers.SGD(1.0), None, (), False)
    for seed in (0, 1):
        agent.learner.update(sample(2, 4, seed=seed), {})
    return agent, float(agent.w[0])


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


@pytest.mark.parametrize("draw", [lambda agent: agent.rng.random(), lambda agent: random.random(), lambda _: drawn()])
def test_random_numbers_of_python_are_drawn_for_each_step(draw):
    random.seed(3)
    np.random.seed(3)  # noqa: NPY002 (what others draw from)
    _, distance = moved(lambda agent, r: draw(agent))
    random.seed(3)
    np.random.seed(3)  # noqa: NPY002
    other = Agent(lambda agent, r: 0.0)
    np.testing.assert_allclose(distance, sum(draw(other) for _ in range(4)), rtol=1e-5)


def drawn():
    return float(np.random.rand())  # noqa: NPY002


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


def test_a_number_that_changes_all_the_time_is_followed_to_the_end(caplog):
    agent = Agent(lambda agent, r: agent.scale)
    agent.learner.prepare(keras.optimizers.SGD(1.0), None, (), False)
    for k in range(9):
        agent.scale = float(k)
        agent.learner.update(sample(1, 4), {})
    assert float(agent.w[0]) == sum(range(9))
    assert "Agent reads scale, which keeps changing: its gradient steps are taken untraced from now on" in caplog.text
    assert agent.learner.num_traces == 6
    agent.learner.prepare(None, None, (), False)  # another call of train() tries anew
    agent.learner.update(sample(1, 4), {})
    assert agent.learner.num_traces == 7


def test_changes_that_come_seldom_are_traced_anew(monkeypatch):
    monkeypatch.setattr("note_rl.learners.keras.update._BLOCKS_PER_COMPILED", 2)
    agent = Agent(lambda agent, r: agent.scale)
    agent.learner.prepare(keras.optimizers.SGD(1.0), None, (), False)
    for k in range(18):
        agent.scale = float(k // 2)
        agent.learner.update(sample(1, 4), {})
    assert float(agent.w[0]) == 2 * sum(range(9))
    assert agent.learner.num_traces == 9


def test_where_all_must_be_traced_it_is_refused():
    agent = Agent(counting)
    agent.learner._update.always_traced = True
    agent.learner.prepare(keras.optimizers.SGD(1.0), None, (), False)
    with pytest.raises(AgentContractError, match=r"Agent changes self\.counter, .* all is traced: .*tf\.Variable"):
        agent.learner.update(sample(1, 4), {})
    assert agent.counter == 0


def test_the_agent_s_own_counts_are_those_of_each_block():
    """Blocks of one step each, as num_updates=1 has them: w = 0 + 1 + ... + (n - 1)."""
    agent = Agent(lambda agent, r: float(agent.num_gradient_steps))
    agent.set(policy=GreedyQPolicy(), pool_size=50, batch=4, train_freq=1, num_updates=1, learning_starts=6, seed=1)
    agent.train(optimizer=keras.optimizers.SGD(1.0), total_steps=20, p=0, jit_compile=False)
    assert agent.num_gradient_steps > 8
    assert float(agent.w[0]) == sum(range(agent.num_gradient_steps))


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


def test_a_callback_that_changes_a_layer_between_phases_is_followed():
    agent = Agent(lambda agent, r: agent.held["space"].n)
    agent.set(policy=GreedyQPolicy(), pool_size=50, batch=4, train_freq=2, num_updates=1, learning_starts=4, seed=1)

    def change(phase, logs):
        agent.held["space"].n = phase // 4

    hooks = LambdaCallback(on_phase_end=change)
    agent.train(optimizer=keras.optimizers.SGD(1.0), total_steps=24, p=0, jit_compile=False, callbacks=hooks)
    steps = agent.num_gradient_steps
    assert float(agent.w[0]) == sum(phase // 4 for phase in range(13 - steps - 1, 12))


def test_arrays_that_are_too_large_to_be_compared_are_refused_unless_nobody_writes_into_them(caplog, monkeypatch):
    monkeypatch.setattr("note_rl.learners.keras.holders.MOST_BYTES", 2**10)
    for writeable in (False, True):
        agent = Agent(lambda agent, r: float(agent.large[0]))
        agent.large = np.ones(2**10, np.float32)
        agent.large.flags.writeable = writeable
        agent.learner.prepare(keras.optimizers.SGD(1.0), None, (), False)
        agent.learner.update(sample(1, 4), {})
        assert agent.learner._update.compilation.untraced is writeable
        agent.large = np.full(2**10, 3.0, np.float32)
        agent.learner.update(sample(1, 4), {})
        assert float(agent.w[0]) == 1.0 + 3.0
    assert "reads large: an array of more than 1,024 bytes" in caplog.text
    assert "array.flags.writeable = False" in caplog.text


def numbers():
    yield from range(1, 9)


COUNT_OF_THE_MODULE = itertools.count(1)


@pytest.mark.parametrize("make", [numbers, lambda: itertools.count(1), lambda: iter([1, 2, 3, 4]), lambda: None])
def test_what_iterators_give_is_that_of_each_step(make, caplog, monkeypatch):
    monkeypatch.setitem(globals(), "COUNT_OF_THE_MODULE", itertools.count(1))
    agent = Agent(lambda agent, r: float(next(agent.numbers or COUNT_OF_THE_MODULE)))
    agent.numbers = make()
    agent.learner.prepare(keras.optimizers.SGD(1.0), None, (), False)
    agent.learner.update(sample(4, 4), {})
    assert float(agent.w[0]) == 1 + 2 + 3 + 4
    name = "global COUNT_OF_THE_MODULE" if agent.numbers is None else "self.numbers"
    assert f"reads {name}, an iterator, which gives another answer each time" in caplog.text


@pytest.mark.parametrize(
    ("read", "name"),
    [
        (lambda: time.time(), "time.time()"),
        (lambda: float(os.environ["NOTE_RL_TEST"]), "os.environ"),
        (lambda: float(os.getenv("NOTE_RL_TEST", "0")), "os.environ"),
        (lambda: float(pathlib.Path(os.devnull).read_text() or 1), "open()"),
        (lambda: np.random.default_rng().random(), "os.urandom()"),
    ],
)
def test_what_comes_from_outside_is_read_in_each_step(read, name, caplog, monkeypatch):
    monkeypatch.setenv("NOTE_RL_TEST", "1.0")
    agent, _ = moved(lambda agent, r: read())
    assert agent.learner._update.compilation.untraced
    assert f"reads {name}, another each time: its gradient steps are taken untraced" in caplog.text


def test_what_garbage_collection_runs_is_not_what_a_loss_does(caplog):
    answers = []

    def look_at_the_time(phase, info):
        answers.append(time.time())

    def making_garbage(agent, r):
        agent.garbage = [[] for _ in range(10)]
        return 1.0

    threshold = gc.get_threshold()
    gc.callbacks.append(look_at_the_time)
    gc.set_threshold(1)
    try:
        agent, distance = moved(making_garbage)
    finally:
        gc.set_threshold(*threshold)
        gc.callbacks.remove(look_at_the_time)
    assert distance == 4.0
    assert len(answers) > 1
    assert not agent.learner._update.compilation.untraced
    assert caplog.text == ""


class OwnCartPole(CartPoleEnv):
    """An environment of the user's own, which no loss of a built-in agent runs."""


@pytest.mark.parametrize("env", ["CartPole-v1", OwnCartPole])
def test_agents_without_code_of_the_reader_s_are_traced_without_a_profiler(env, monkeypatch):
    def no_profiler(own):
        raise AssertionError("tracing would take half as long again")

    monkeypatch.setattr("note_rl.learners.keras.trace_constants.reads_from_outside", no_profiler)
    agent = DQN(env=env, hidden_size=(4,))
    agent.learner.prepare(keras.optimizers.SGD(1.0), None, (), False)
    two = sample(1, 4)
    four = replace(two, obs=np.tile(two.obs, 2), next_obs=np.tile(two.next_obs, 2))
    agent.learner.update(four, {})
    assert not agent.learner._update.compilation.untraced
    with pytest.raises(AssertionError, match="half as long"):
        moved(lambda agent, r: 1.0)
