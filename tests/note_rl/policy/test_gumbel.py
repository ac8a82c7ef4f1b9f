"""The policy that samples by Gumbel noise."""

import numpy as np
import pytest
from gymnasium import spaces
from hypothesis import given, settings
from hypothesis import strategies as st

from note_rl.policy import GumbelSoftmaxPolicy
from tests.note_rl.policy.scores import SCORES, N, shares, softmax


@settings(max_examples=20, deadline=None)
@given(SCORES, st.floats(0, 1), st.floats(0.1, 5), st.integers(0, 2**32 - 1))
def test_gumbel_softmax_samples_the_softmax_whatever_its_temperature(scores, eps, temperature, seed):
    found = shares(GumbelSoftmaxPolicy(temperature, eps), scores, np.random.default_rng(seed))
    np.testing.assert_allclose(found, eps / len(scores) + (1 - eps) * softmax(scores), atol=0.02)


def test_gumbel_softmax_speaks_of_one_hot_vectors_where_actions_are_vectors():
    policy = GumbelSoftmaxPolicy(eps=0.0)
    policy.use_space(spaces.Box(0, 1, (3,)))
    np.testing.assert_array_equal(policy.greedy(np.array([[0, 5, 1], [9, 5, 1]])), [[0, 1, 0], [1, 0, 0]])
    chosen = policy.select(np.zeros((1000, 3)), np.random.default_rng(0))
    np.testing.assert_array_equal(chosen.sum(1), np.ones(1000))
    np.testing.assert_allclose(chosen.mean(0), np.full(3, 1 / 3), atol=0.05)


def test_methods_of_gumbel_softmax():
    policy = GumbelSoftmaxPolicy(temperature=0.5, eps=0.0)
    logits = np.tile([1.0, 2.0, 0.0], (N, 1))
    soft = policy.gumbel_softmax_sample(logits)
    np.testing.assert_allclose(soft.sum(1), np.ones(N))
    np.testing.assert_allclose(np.bincount(soft.argmax(1)) / N, softmax([1, 2, 0]), atol=0.01)
    np.testing.assert_array_equal(policy.onehot_from_logits(logits[:2]), [[0, 1, 0], [0, 1, 0]])
    np.testing.assert_allclose(policy.gumbel_softmax(logits).mean(0), softmax([1, 2, 0]), atol=0.01)
    assert policy.sample_gumbel((N,)).mean() == pytest.approx(np.euler_gamma, abs=0.03)
