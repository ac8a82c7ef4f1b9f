"""What changes after a Keras agent was traced: traced steps are those that are taken as they are written."""

import contextvars
import weakref
from array import array
from collections import UserList, deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from queue import Queue
from types import SimpleNamespace
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from note_rl import RL
from note_rl.agents.shared.keras.networks import soft_update
from note_rl.policy import EpsGreedyQPolicy
from note_rl.seeding import seed_everything
from tests.note_rl.samples import sample

SCALE = 1.0


class Scaled(keras.layers.Layer):
    """A layer of somebody's own, with a number."""

    def __init__(self):
        super().__init__()
        self.temperature = 1.0
        self.inner = keras.layers.Dense(2)
        self.other = keras.layers.Dense(2)

    def build(self, shape):
        self.inner.build(shape)
        self.other.build(shape)

    def call(self, x):
        return self.inner(x) / self.temperature


class OfLayers(RL):
    """Learns the reward by a network of layers that can change."""

    def __init__(self):
        super().__init__()
        dense = keras.layers.Dense(4, kernel_constraint=keras.constraints.MaxNorm(9.0))
        layers = [dense, keras.layers.Dropout(0.5), keras.layers.BatchNormalization(), Scaled()]
        self.net = keras.Sequential([keras.Input((2,)), *layers])
        self.param = self.net.trainable_variables

    def action(self, s):
        return self.net(s)

    def __call__(self, s, a, next_s, r, d):
        return tf.reduce_mean(tf.square(self.net(s)[:, 0] - r))


@dataclass(slots=True)
class Slots:
    scale: float = 1.0


def scale_of_the_module():
    return SCALE


class OfNumbers(RL):
    """Moves its only weight by 1 per step, times numbers that are held in many ways."""

    margin = 1.0

    def __init__(self, held=None, read=lambda held: 1.0):
        super().__init__()
        self.held, self.read = held, read
        self.w = tf.Variable([0.0])
        self.param = [self.w]
        self.config = SimpleNamespace(scale=1.0, inner={"list": [1.0]})
        self.slots = Slots()
        self.array = np.ones(1, np.float32)
        self.nested = {"a": {"b": 1.0}}
        factor = 1.0
        self.factored = lambda w: factor * w

    def action(self, s):
        return s * self.w

    def scale(self):
        scale = self.config.scale * self.config.inner["list"][0] * self.slots.scale * self.nested["a"]["b"]
        return self.array * scale * self.margin * self.read(self.held)

    def __call__(self, s, a, next_s, r, d):
        return -tf.reduce_sum(self.factored(self.w) * self.scale()) * scale_of_the_module()


def trained(
    make: Callable[[], Any], change: Callable[[Any], object], untraced: bool = False, again: bool = False
) -> Any:
    """An agent after two update blocks of a step, changed in between, with or without another call of train()."""
    seed_everything(3)
    agent = make()
    optimizer = keras.optimizers.SGD(0.1, momentum=0.5) if make is OfLayers else keras.optimizers.SGD(1.0)
    agent.learner.prepare(optimizer, None, (), False)
    agent.learner._update.compilation.untraced = untraced
    agent.learner.update(sample(1, 4, seed=0), {})
    change(agent)
    if again:
        agent.learner.prepare(None, None, (), False)
    agent.learner.update(sample(1, 4, seed=1), {})
    return agent


def set_to(path, value):
    return lambda agent: exec(f"agent.{path} = value", {"agent": agent, "value": value})


def exchange(agent):
    agent.net.layers[3].inner = agent.net.layers[3].other


LAYERS = {  # numbers of other layers, and those of own ones: test_layers_that_change.py
    "rate of dropout": set_to("net.layers[1].rate", 0.0),
    "frozen layer": set_to("net.layers[0].trainable", False),
    "constraint": set_to("net.layers[0].kernel.constraint.max_value", 0.01),
    "frozen variable": set_to("net.layers[0].kernel.trainable", False),
    "activation": set_to("net.layers[0].activation", keras.activations.tanh),
    "another layer within one": exchange,
}


@cache
def unchanged():
    weights = trained(OfLayers, lambda agent: None, untraced=True).net.get_weights()
    return weights


@pytest.mark.parametrize("what", LAYERS)
def test_layers_that_change_are_followed(what):
    followed = trained(OfLayers, LAYERS[what], again=what == "rate of dropout")
    assert followed.learner.num_traces == 2
    found, expected = followed.net.get_weights(), trained(OfLayers, LAYERS[what], untraced=True).net.get_weights()
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)
    assert max(np.abs(a - b).max() for a, b in zip(found, unchanged(), strict=True)) > 1e-3


@pytest.mark.parametrize("untraced", [False, True])
def test_frozen_layers_stay_as_they_are_while_others_learn(untraced):
    before = []

    def freeze(agent):
        agent.net.layers[0].trainable = False
        before.extend(agent.net.get_weights())

    agent = trained(OfLayers, freeze, untraced)
    moved = [not np.array_equal(a, b) for a, b in zip(before, agent.net.get_weights(), strict=True)]
    assert moved[:2] == [False, False]
    assert all(moved[2:8])  # batch normalisation with its statistics, and the inner layer of the last one
    agent.net.trainable = False  # nothing is left to learn
    before = agent.net.get_weights()
    agent.learner.update(sample(1, 4), {})
    np.testing.assert_equal(agent.net.get_weights(), before)


def test_a_frozen_layer_s_target_moves_on_as_softly_as_before():
    online, target = (keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)]) for _ in range(2))
    online.set_weights([np.array([[1.0]]), np.array([1.0])])
    target.set_weights([np.array([[0.0]]), np.array([0.0])])
    online.layers[0].trainable = False
    soft_update(target, online, 0.25)
    np.testing.assert_equal(target.get_weights(), [np.array([[0.25]], np.float32), np.array([0.25], np.float32)])


def change_enclosed(agent):
    agent.factored.__closure__[0].cell_contents = 3.0


def change_global(agent):
    globals()["SCALE"] = 3.0


def change_class(agent):
    OfNumbers.margin = 3.0


NUMBERS = {
    "namespace": set_to("config.scale", 3.0),
    "list in a dictionary in a namespace": set_to("config.inner['list'][0]", 3.0),
    "slots": set_to("slots.scale", 3.0),
    "array in place": set_to("array[0]", 3.0),
    "another array": set_to("array", np.full(1, 3.0, np.float32)),
    "dictionary in a dictionary": set_to("nested['a']['b']", 3.0),
    "another function": set_to("factored", lambda w: 3.0 * w),
    "another method": set_to("scale", lambda: 3.0),
    "enclosed variable": change_enclosed,
    "global of a function that is called": change_global,
    "attribute of the class": change_class,
}


@pytest.mark.parametrize("what", NUMBERS)
def test_numbers_that_change_are_followed_wherever_they_are_held(what, monkeypatch):
    monkeypatch.setattr(OfNumbers, "margin", 1.0)
    monkeypatch.setitem(globals(), "SCALE", 1.0)
    agent = trained(OfNumbers, NUMBERS[what])
    np.testing.assert_allclose(agent.w, [1.0 + 3.0])
    assert agent.learner.num_traces == 2
    agent.learner.update(sample(1, 4), {})
    assert agent.learner.num_traces == 2


class Entries(dict):
    """Knows no other error than that of dictionaries."""

    def __getattr__(self, name):
        return self[name]


def of_one():
    held = Queue()
    held.put(1.0)
    return held


def attributed():
    def held():
        pass

    held.scale = 1.0
    return held


class PastTheAgent(OfNumbers):
    """Reads what no attribute of its own leads to, or an object of this project."""

    def __init__(self, read):
        super().__init__()
        self.read_so = read
        self.exploring = EpsGreedyQPolicy(1.0)

    def scale(self):
        if self.read_so == "type":
            return type(self).margin
        if self.read_so == "class":
            return self.__class__.margin
        if self.read_so == "dictionary":
            return self.__dict__["nested"]["a"]["b"]
        return self.exploring.eps


@pytest.mark.parametrize(
    ("read", "change"),
    [
        ("type", lambda agent: setattr(PastTheAgent, "margin", 3.0)),
        ("class", lambda agent: setattr(PastTheAgent, "margin", 3.0)),
        ("dictionary", lambda agent: agent.nested["a"].update(b=3.0)),
        ("policy", lambda agent: setattr(agent.exploring, "eps", 3.0)),
    ],
)
def test_what_is_read_past_the_agent_is_followed(read, change, monkeypatch):
    monkeypatch.setattr(PastTheAgent, "margin", 1.0, raising=False)
    agent = trained(lambda: PastTheAgent(read), change)
    np.testing.assert_allclose(agent.w, [1.0 + 3.0])
    assert agent.learner.num_traces == 2


KEPT: list[Entries] = []


def referred():
    KEPT[:] = [Entries(scale=1.0)]
    return weakref.ref(KEPT[0])


READ = {
    "deque": (lambda: deque([1.0]), lambda held: held[0], lambda held: held.__setitem__(0, 3.0)),
    "bytearray": (lambda: bytearray([1]), lambda held: float(held[0]), lambda held: held.__setitem__(0, 3)),
    "array of Python": (lambda: array("d", [1.0]), lambda held: held[0], lambda held: held.__setitem__(0, 3.0)),
    "memoryview": (
        lambda: memoryview(bytearray([1])),
        lambda held: float(held[0]),
        lambda held: held.__setitem__(0, 3),
    ),
    "UserList": (lambda: UserList([1.0]), lambda held: held[0], lambda held: held.__setitem__(0, 3.0)),
    "length of a queue": (of_one, lambda held: float(held.qsize()), lambda held: [held.put(1.0), held.put(1.0)]),
    "method of a list": (lambda: [1.0].__getitem__, lambda held: held(0), lambda held: held.__self__.insert(0, 3.0)),
    "order of a dictionary": (
        lambda: {"a": 1.0, "b": 3.0},
        lambda held: list(held.values())[0],  # noqa: RUF015
        lambda held: held.update(a=held.pop("a")),
    ),
    "array of objects": (
        lambda: np.array([1.0, "a"], object),
        lambda held: held[0],
        lambda held: held.__setitem__(0, 3.0),
    ),
    "large array": (lambda: np.ones(2**17), lambda held: float(held[-1]), lambda held: held.__setitem__(-1, 3.0)),
    "weak reference": (referred, lambda held: held()["scale"], lambda held: held().update(scale=3.0)),
    "variable of a context": (
        lambda: contextvars.ContextVar("scale", default=1.0),
        lambda held: held.get(),
        lambda held: held.set(3.0),
    ),
    "dictionary with attributes": (
        lambda: Entries(scale=1.0),
        lambda held: held.scale,
        lambda held: held.update(scale=3.0),
    ),
    "attribute of a function": (attributed, lambda held: held.scale, lambda held: setattr(held, "scale", 3.0)),
}


@pytest.mark.parametrize("what", READ)
def test_what_objects_of_python_and_numpy_hold_is_followed(what):
    make, read, change = READ[what]
    agent = trained(lambda: OfNumbers(make(), read), lambda agent: change(agent.held))
    np.testing.assert_allclose(agent.w, [1.0 + 3.0])
    assert not agent.learner._update.compilation.untraced


@pytest.mark.parametrize(
    ("read", "change", "back"),
    [
        (
            lambda held: 3.0 if keras.config.floatx() == "float64" else 1.0,
            lambda agent: keras.config.set_floatx("float64"),
            lambda: keras.config.set_floatx("float32"),
        ),
        (
            lambda held: 3.0 if keras.config.epsilon() > 1e-3 else 1.0,
            lambda agent: keras.config.set_epsilon(1e-2),
            lambda: keras.config.set_epsilon(1e-7),
        ),
        (
            lambda held: 3.0 if keras.config.dtype_policy().name == "mixed_float16" else 1.0,
            lambda agent: keras.config.set_dtype_policy("mixed_float16"),
            lambda: keras.config.set_dtype_policy("float32"),
        ),
    ],
    ids=["floatx", "epsilon", "dtype policy"],
)
def test_settings_of_keras_are_followed(read, change, back):
    try:
        agent = trained(lambda: OfNumbers(None, read), change)
    finally:
        back()
    np.testing.assert_allclose(agent.w, [1.0 + 3.0])
    assert agent.learner.num_traces == 2
