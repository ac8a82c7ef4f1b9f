"""An agent that has something of each kind that a loss may read."""

import functools
import itertools
import threading
import types
from collections import deque
from dataclasses import dataclass

import numpy as np
import torch

from tests.note_rl.learners.step_graph.recorded_agents import Custom


class Constants:
    scale = 1.0


@dataclass
class Numbers:
    scale: float = 1.0


def doubled(values):
    return 2 * values


def times(values, by):
    return by * values


def counted():
    yield from (1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0)


def of_scale(read):
    return lambda agent, s, r: read(agent) * (s @ agent.w - r).square()


class Entries(dict):
    """Knows no other error than that of dictionaries."""

    def __getattr__(self, name):
        return self[name]


class OwnThread(threading.Thread):
    scale = 1.0


class Base(Custom):
    of_base = 1.0


class Reading(Base):
    """Has something of each kind that a loss may read."""

    traceable = True
    of_class = 1.0

    def __init__(self, loss):
        super().__init__(loss)
        self.pair, self.entries, self.numbers = (1.0, 2.0), {"scale": 1.0, "inner": [1.0]}, [1.0, 2.0]
        self.array, self.constants = np.array([1.0, 2.0]), Numbers()
        self.function, self.partial = doubled, functools.partial(times, by=1.0)
        self.tensors = {"scale": torch.tensor(1.0)}
        self.space = types.SimpleNamespace(scale=1.0)
        self.queue, self.generator = deque([1.0]), np.random.default_rng(0)
        self.bits, self.of_old = np.random.PCG64(0), np.random.RandomState(0)
        self.attributed, self.thread, self.kind = Entries(scale=1.0), OwnThread(), Constants
        self.counted, self.wrapped = counted(), {"it": itertools.count(1)}
