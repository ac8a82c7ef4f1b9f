"""Losses that read what is outside of the agent: iterators, the time, files, random numbers."""

import gc
import itertools
import os
import pathlib
import random
import time
from dataclasses import replace

import keras
import numpy as np
import pytest
from gymnasium.envs.classic_control import CartPoleEnv

from note_rl.agents.keras import DQN
from tests.note_rl.learners.keras.moved_agents import Agent, moved
from tests.note_rl.samples import sample

pytestmark = pytest.mark.usefixtures("said_anew")


@pytest.fixture
def _traced_once():
    """Here a second trace listens, as for users."""


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
