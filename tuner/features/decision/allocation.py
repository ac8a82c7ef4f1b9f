"""Which configuration runs next: one of the two between which the choice is least sure."""

from collections.abc import Sequence

import numpy as np

from tuner.features.decision.gaussian_process import Posterior
from tuner.results.metric import FloatArray


def best_of(found: Posterior, candidates: Sequence[int]) -> int:
    """The candidate with the highest posterior mean; the first of equals."""
    return max(candidates, key=lambda index: found.means[index])


def next_of(found: Posterior, candidates: Sequence[int]) -> int:
    """The candidate that is to run once more.

    Top-two allocation (Russo 2020; the challenger by transportation cost, as in Jourdan et al. 2022): of the best
    candidate and the one that most probably is better after all, the one whose next run reduces the variance of their
    difference more. Nothing is drawn by chance, so that a study that goes on after a kill decides as it would have.

    Args:
        found: Of the true scores.
        candidates: Indices, at least one.
    """
    leader = best_of(found, candidates)
    others = [index for index in candidates if index != leader]
    if not others:
        return leader
    deviations = np.sqrt(np.maximum(found.variances_of_differences(leader), _TINY))
    behind = (found.means[leader] - found.means) / deviations
    challenger = min(others, key=lambda index: behind[index])
    gains = _gains(found, leader, challenger)
    return max((challenger, leader), key=lambda index: gains[index])


_TINY = 1e-12


def _gains(found: Posterior, leader: int, challenger: int) -> FloatArray:
    """By how much a further run of each configuration reduces the variance of the difference of two true scores."""
    covariance = found.covariance
    shared = covariance[leader] - covariance[challenger]
    return np.asarray(shared**2 / np.maximum(np.diag(covariance) + found.noise, _TINY))
