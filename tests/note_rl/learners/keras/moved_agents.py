"""An agent whose only weight moves by what its loss says."""

from types import SimpleNamespace

import keras
import numpy as np
import tensorflow as tf

from note_rl import RL
from tests.note_rl.samples import sample
from tests.note_rl.small_environments import Counting


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


def moved(factor):
    """An agent after two blocks of two steps, and how far it has moved."""
    agent = Agent(factor)
    agent.learner.prepare(keras.optimizers.SGD(1.0), None, (), False)
    for seed in (0, 1):
        agent.learner.update(sample(2, 4, seed=seed), {})
    return agent, float(agent.w[0])
