"""Agents whose layers, numbers and objects can change after they were traced."""

from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from note_rl import RL
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
