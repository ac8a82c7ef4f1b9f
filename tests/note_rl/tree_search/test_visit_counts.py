"""Noise at the root and the temperature, by hand."""

import numpy as np
import pytest

from note_rl.tree_search import visit_probabilities, with_root_noise


@pytest.mark.parametrize(
    ("temperature", "expected"),
    [(1.0, [0.25, 0.75]), (0.5, [0.1, 0.9]), (2.0, [0.366025, 0.633975]), (0.0, [0.0, 1.0])],
)
def test_temperature(temperature, expected):
    """Of 1 and 3 visits: 1 : 3, 1 : 9, 1 : sqrt(3), and the most visits alone."""
    found = visit_probabilities(np.array([[1, 3]]), temperature)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, [expected], rtol=1e-5)


def test_a_low_temperature_does_not_overflow():
    """(999 / 1000)^1000 = 0.367695."""
    found = visit_probabilities(np.array([[1000, 999], [0, 7]]), 1e-3)
    np.testing.assert_allclose(found, [[1 / 1.367695, 0.367695 / 1.367695], [0.0, 1.0]], rtol=1e-5)


def test_the_first_of_several_actions_with_the_most_visits_is_taken():
    assert visit_probabilities(np.array([[2, 5, 5]]), 0.0).tolist() == [[0.0, 1.0, 0.0]]


def test_noise_is_mixed_in_by_its_fraction():
    prior = np.tile([0.7, 0.2, 0.1], (4000, 1))
    mixed = with_root_noise(prior, 0.3, 0.25, np.random.default_rng(0))
    np.testing.assert_allclose(mixed.sum(axis=1), 1.0)
    assert (mixed > 0.75 * prior).all()
    np.testing.assert_allclose(mixed.mean(axis=0), 0.75 * prior[0] + 0.25 / 3, atol=0.01)
    drawn = (mixed - 0.75 * prior) / 0.25  # variance of a share: (1/3 * 2/3) / (3 * alpha + 1)
    np.testing.assert_allclose(drawn.var(axis=0), 2 / 9 / 1.9, rtol=0.1)
