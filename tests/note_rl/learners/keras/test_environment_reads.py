"""Reads of environments and spaces by a traced loss are followed; a loss that draws or changes there is not traced."""

import gymnasium
import keras
import numpy as np
import pytest
import tensorflow as tf
from gymnasium import spaces

from note_rl import RL, errors
from tests.note_rl.learners.keras.noted import assert_followed
from tests.note_rl.samples import sample
from tests.note_rl.small_environments import Counting


class Level(gymnasium.Wrapper):
    """A wrapper of the reader's own, with numbers."""

    base = 1.0

    def __init__(self, env):
        super().__init__(env)
        self.level = 1.0
        self.config = {"levels": [1.0]}
        self.num_asked = 0

    def scale(self):
        return self.level

    def counted(self):
        self.num_asked += 1
        return float(self.num_asked)


class Outer(gymnasium.Wrapper):
    pass


class Held:
    """Something else that holds an environment."""

    def __init__(self):
        self.env = Level(Counting())


MODULE = [Level(Counting())]

OUTSIDE = MODULE[0]


class Agent(RL):
    """Its only weight moves by 1 per step, times what is read of its environment."""

    def __init__(self, read):
        super().__init__()
        self.w = tf.Variable([0.0])
        self.param = [self.w]
        self.read = read
        self.env = Outer(Level(Counting()))
        self.space = spaces.Dict({"a": spaces.Box(-1.0, 1.0, (1,)), "b": spaces.Tuple([spaces.Discrete(2)])})
        self.held, self.several = Held(), [Level(Counting()), Level(Counting())]

    def action(self, s):
        return s * self.w

    def __call__(self, s, a, next_s, r, d):
        return -tf.reduce_sum(self.w) * self.read(self)


@pytest.fixture(autouse=True)
def _as_before(monkeypatch):
    monkeypatch.setattr(Level, "base", 1.0)
    monkeypatch.setattr(OUTSIDE, "level", 1.0)
    monkeypatch.setattr(errors, "_said", set())


def learner_of(read):
    agent = Agent(read)
    agent.learner.prepare(keras.optimizers.SGD(1.0), None, (), False)
    return agent.learner


def box(agent):
    return agent.space["a"]


CHANGES = {
    "attribute of a wrapper": (lambda agent: agent.env.env.level, lambda agent: setattr(agent.env.env, "level", 3.0)),
    "by a method": (lambda agent: agent.env.env.scale(), lambda agent: setattr(agent.env.env, "level", 3.0)),
    "by name": (
        lambda agent: agent.env.get_wrapper_attr("level"),
        lambda agent: setattr(agent.env.env, "level", 3.0),
    ),
    "hidden by a new one": (
        lambda agent: getattr(agent.env, "level", 1.0),
        lambda agent: setattr(agent.env, "level", 3.0),
    ),
    "of its class": (lambda agent: agent.env.env.base, lambda agent: setattr(Level, "base", 3.0)),
    "class hidden": (lambda agent: agent.env.env.base, lambda agent: setattr(agent.env.env, "base", 3.0)),
    "deep": (
        lambda agent: agent.env.env.config["levels"][0],
        lambda agent: agent.env.env.config["levels"].insert(0, 3.0),
    ),
    "__dict__": (
        lambda agent: agent.env.env.__dict__["level"],
        lambda agent: setattr(agent.env.env, "level", 3.0),
    ),
    "not there": (
        lambda agent: 3.0 if hasattr(agent.env, "later") else 1.0,
        lambda agent: setattr(agent.env, "later", 0),
    ),
    "another one": (lambda agent: agent.env.env.level, lambda agent: setattr(agent, "env", another())),
    "held by an object": (lambda agent: agent.held.env.level, lambda agent: setattr(agent.held.env, "level", 3.0)),
    "in a list": (
        lambda agent: agent.several[0].level * agent.several[1].level,
        lambda agent: setattr(agent.several[1], "level", 3.0),
    ),
    "first in a list": (
        lambda agent: agent.several[0].level * agent.several[1].level,
        lambda agent: setattr(agent.several[0], "level", 3.0),
    ),
    "global": (lambda agent: OUTSIDE.level, lambda agent: setattr(OUTSIDE, "level", 3.0)),
    "bound of a box": (lambda agent: float(box(agent).high[0]), lambda agent: box(agent).high.fill(3.0)),
    "another bound": (
        lambda agent: float(box(agent).high[0]),
        lambda agent: setattr(box(agent), "high", np.full(1, 3.0)),
    ),
    "choices": (lambda agent: float(agent.space["b"][0].n) - 1.0, lambda agent: setattr(agent.space["b"][0], "n", 4)),
    "space of the environment": (
        lambda agent: float(agent.env.observation_space.high.flat[0] > 0.5) * 2.0 + 1.0,
        lambda agent: agent.env.unwrapped.observation_space.high.fill(1.0),
    ),
}


def another():
    env = Outer(Level(Counting()))
    env.env.level = 3.0
    return env


def acted(agent):
    """Changes what nobody reads."""
    agent.env.reset(seed=0)
    agent.env.step(0)


@pytest.mark.parametrize("what", CHANGES)
def test_what_is_read_of_environments_and_spaces_is_followed(what):
    read, change = CHANGES[what]
    agent = Agent(read)
    agent.env.unwrapped.observation_space = spaces.Box(0.0, 0.0, (1,))
    assert read(agent) == 1.0
    assert_followed(agent, change, nothing=acted)
    assert read(agent) == 3.0


@pytest.mark.parametrize("what", ["by a method", "another one", "choices"])
def test_traced_steps_use_what_has_changed(what):
    read, change = CHANGES[what]
    learner = learner_of(read)
    learner.update(sample(1, 4), {})
    acted(learner.agent)
    learner.update(sample(1, 4), {})
    change(learner.agent)
    learner.update(sample(1, 4), {})
    np.testing.assert_allclose(learner.agent.w, [1.0 + 1.0 + 3.0])
    assert learner.num_traces == 2
    assert not learner._update.compilation.untraced


def test_drawing_from_a_space_between_updates_traces_nothing_anew():
    learner = learner_of(lambda agent: float(box(agent).high[0]))
    for _ in range(3):
        learner.update(sample(1, 4), {})
        learner.agent.space.sample()
        str(learner.agent.space)
    assert learner.num_traces == 1


def test_what_an_environment_counts_is_that_of_each_step(caplog):
    learner = learner_of(lambda agent: agent.env.env.counted())
    learner.update(sample(4, 4), {})
    assert float(learner.agent.w[0]) == 1 + 2 + 3 + 4
    assert "changes self.env.env.num_asked: its gradient steps are taken untraced" in caplog.text


@pytest.mark.parametrize(
    ("seed", "draw"),
    [
        (lambda agent: box(agent).seed(3), lambda agent: float(box(agent).sample()[0])),
        (lambda agent: agent.env.reset(seed=3), lambda agent: agent.env.np_random.random()),
    ],
    ids=["space", "environment"],
)
def test_random_numbers_of_spaces_and_environments_are_drawn_for_each_step(seed, draw, caplog):
    learner = learner_of(draw)
    seed(learner.agent)
    learner.update(sample(4, 4), {})
    other = Agent(draw)
    seed(other)
    np.testing.assert_allclose(float(learner.agent.w[0]), sum(draw(other) for _ in range(4)), rtol=1e-5)
    assert "its gradient steps are taken untraced" in caplog.text
