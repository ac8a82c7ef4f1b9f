"""Scores of actions, and how often each is chosen."""

import numpy as np
from hypothesis import strategies as st

N = 40_000


def shares(policy, scores, rng=None):
    """How often each action is chosen for one row of scores."""
    actions = policy.select(np.tile(np.asarray(scores, np.float32), (N, 1)), rng or np.random.default_rng(0))
    assert actions.shape == (N,)
    return np.bincount(actions, minlength=len(scores)) / N


def softmax(values):
    shares = np.exp(np.asarray(values, np.float64) - np.max(values))
    return shares / shares.sum()


SCORES = st.lists(st.floats(-3, 3), min_size=2, max_size=5, unique_by=lambda value: round(value, 3))
