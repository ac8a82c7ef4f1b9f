"""Spaces of actions that are numbers."""

import numpy as np

N = 20_000


def rng(seed=0):
    return np.random.default_rng(seed)
