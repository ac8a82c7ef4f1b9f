"""The posterior against textbook formulas, written once more in the plainest way."""

import math
from itertools import product

import numpy as np
import pytest

from tuner.features.decision import gaussian_process as module
from tuner.features.decision.gaussian_process import Observations, matern, posterior


def observations(
    points: list[list[float]], owners: list[int], scores: list[float], variances: list[float] | None = None
) -> Observations:
    return Observations(
        np.array(points), np.array(owners), np.array(scores), np.array(variances or [0.0] * len(scores))
    )


def one_point_of_the_grid(monkeypatch: pytest.MonkeyPatch, noise: float = 0.5, trend: float = 0.0) -> None:
    monkeypatch.setattr(module, "LENGTH_SCALES", (1.0,))
    monkeypatch.setattr(module, "NOISE_RATIOS", (noise,))
    monkeypatch.setattr(module, "NOISE_TRENDS", (trend,))


def test_the_covariance_by_hand() -> None:
    # at distance 1 and length scale sqrt(5), sqrt(5) r / l = 1: (1 + 1 + 1/3) / e
    found = matern(np.array([[0.0], [1.0]]), math.sqrt(5.0))
    assert found == pytest.approx(np.array([[1.0, 7 / 3 / math.e], [7 / 3 / math.e, 1.0]]))


def test_two_runs_of_one_configuration_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    """Scores 0 and 2, standardised -1 and 1, share a true score with variance 1 + 4 and have noise 1/2 each.

    Their mean is 0 and carries all: the true score has mean 0 and variance 5 - 25 / (5 + 1/4) = 5/21 in units of the
    signal, whose expected variance is (1 + 0.5 z'A^-1 z) / (2 + 2/2 - 1), where z'A^-1 z is (1 + 1) / 0.5 = 4.
    """
    one_point_of_the_grid(monkeypatch)
    found = posterior(observations([[0.0]], [0, 0], [0.0, 2.0]))
    signal = (1.0 + 0.5 * 4.0) / 2.0
    assert found.means == pytest.approx([1.0])
    assert found.covariance == pytest.approx(np.array([[signal * 5 / 21]]))
    assert found.noise == pytest.approx([signal * 0.5])


def naive(seen: Observations, trends: tuple[float, ...], level: list[float]) -> tuple[list[float], np.ndarray]:
    """Means and covariance by the formulas of the books: inverses, determinants, a weight for each grid point."""
    centre, unit = np.mean(seen.scores), np.std(seen.scores)
    z = (seen.scores - centre) / unit
    found, logs = [], []
    for length, ratio, trend in product(module.LENGTH_SCALES, module.NOISE_RATIOS, trends):
        prior = matern(seen.points, length) + module.MEAN_VARIANCE
        noise = [ratio * math.exp(trend * level[owner]) for owner in seen.owners]
        own = prior[np.ix_(seen.owners, seen.owners)] + np.diag(noise + seen.variances / unit**2)
        inverse = np.linalg.inv(own)
        shape, scale = module.SHAPE + len(z) / 2, module.SCALE + z @ inverse @ z / 2
        logs.append(-0.5 * math.log(np.linalg.det(own)) - shape * math.log(scale))
        to_seen = prior[:, seen.owners]
        covariance = (prior - to_seen @ inverse @ to_seen.T) * scale / (shape - 1)
        found.append((to_seen @ inverse @ z, covariance))
    weights = np.exp(np.array(logs) - max(logs))
    weights /= weights.sum()
    mean = sum(weight * one for weight, (one, _) in zip(weights, found, strict=True))
    covariance = sum(
        weight * (own + np.outer(one - mean, one - mean)) for weight, (one, own) in zip(weights, found, strict=True)
    )
    return mean * unit + centre, covariance * unit**2


def test_the_mixture_is_that_of_a_naive_reference() -> None:
    rng = np.random.default_rng(1)
    points = rng.random((7, 3)) / math.sqrt(3)
    owners = [0, 1, 2, 3, 4, 5, 6, 2, 2, 5]
    scores = (10.0 * points.sum(axis=1)[owners] + rng.standard_normal(len(owners))).tolist()
    seen = observations(points.tolist(), owners, scores, [0.0] * 6 + [3.0] + [0.0] * 3)
    first, _ = naive(seen, (0.0,), [0.0] * 7)
    level = [2.0 * sum(other < own for other in first) / 6 - 1.0 for own in first]
    means, covariance = naive(seen, module.NOISE_TRENDS, level)
    found = posterior(seen)
    assert found.means == pytest.approx(means, rel=1e-3)  # points of the grid below a weight of 1e-4 are left out
    assert found.covariance == pytest.approx(covariance, rel=2e-2, abs=2e-2)
    assert found.deviations == pytest.approx(np.sqrt(np.diag(found.covariance)))


def test_a_lucky_score_counts_less_than_a_repeated_one() -> None:
    """The best of many single scores is drawn towards the others; a mean of six runs that scored a bit less is not."""
    points = [[number / 10.0] for number in range(10)]
    scores = [0.0, 1.0, -1.0, 0.5, -0.5, 0.2, 5.0, -0.7, 0.9, 4.0]
    found = posterior(observations(points, [*range(10), 9, 9, 9, 9, 9], [*scores, 7.0, 1.0, 6.0, 2.0, 4.0]))
    assert found.means[6] < found.means[9] < 5.0


def test_a_score_with_a_variance_of_its_own_moves_less(monkeypatch: pytest.MonkeyPatch) -> None:
    one_point_of_the_grid(monkeypatch)
    sure, unsure = (
        posterior(observations([[0.0], [1.0]], [0, 1, 1], [0.0, 0.0, 3.0], [0.0, 0.0, variance]))
        for variance in (0.0, 20.0)
    )
    assert sure.means[1] > unsure.means[1] > unsure.means[0]
    assert sure.deviations[1] / sure.noise[1] < unsure.deviations[1] / unsure.noise[1]


def test_equal_scores_have_a_posterior() -> None:
    found = posterior(observations([[0.0], [1.0]], [0, 1], [-200.0, -200.0]))
    assert found.means == pytest.approx([-200.0, -200.0])
    assert np.isfinite(found.covariance).all()
