"""Whose run is the next: examples that are worked out by hand."""

import numpy as np
import pytest

from tuner.features.decision.allocation import best_of, next_of
from tuner.features.decision.gaussian_process import Posterior


def known(means: list[float], variances: list[float], noise: float = 1.0) -> Posterior:
    return Posterior(np.array(means), np.diag(variances), np.full(len(means), noise))


def test_the_challenger_is_the_one_that_most_probably_is_better_after_all() -> None:
    """Behind by 1 with variance 0.04 + 0.05, by 2 with 0.04 + 4: 3.3 deviations and 1.0."""
    found = known([10.0, 9.0, 8.0], [0.04, 0.05, 4.0])
    assert best_of(found, [0, 1, 2]) == 0
    assert (
        next_of(found, [0, 1, 2]) == 2
    )  # its run takes 16 / 5 off the variance of the difference, the leader's 0.0015


def test_of_the_two_the_one_whose_run_says_more() -> None:
    """Variances 4 and 1 with noise 1: a run of the leader takes 16 / 5 off their difference, one of the other 1 / 2."""
    found = known([10.0, 9.0, 0.0], [4.0, 1.0, 0.01])
    assert next_of(found, [0, 1, 2]) == 0


def test_noise_counts() -> None:
    """Variances 4 and 3, but noise 20 and 1: 16 / 24 against 9 / 4."""
    found = Posterior(np.array([10.0, 9.0]), np.diag([4.0, 3.0]), np.array([20.0, 1.0]))
    assert next_of(found, [0, 1]) == 1


def test_what_two_share_is_no_difference() -> None:
    """Of variance 4 two share 3.9: what sets them apart is sure, so the third is the challenger."""
    covariance = np.array([[4.0, 3.9, 0.0], [3.9, 4.0, 0.0], [0.0, 0.0, 4.0]])
    found = Posterior(np.array([10.0, 8.0, 7.0]), covariance, np.array([1.0, 1.0, 1.0]))
    assert next_of(found, [0, 1, 2]) in (0, 2)
    assert next_of(found, [0, 2]) == next_of(found, [0, 1, 2])


@pytest.mark.parametrize("candidates", [[1], [0, 1]])
def test_only_candidates_run(candidates: list[int]) -> None:
    found = known([10.0, 9.0, 99.0], [1.0, 1.0, 1.0])
    assert next_of(found, candidates) in candidates
    assert best_of(found, candidates) == candidates[0]
