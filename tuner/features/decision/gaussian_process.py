"""Gaussian process regression with noise that varies over configurations, averaged over what is not known of it.

Length scale, noise and its trend are not fitted: 30 runs do not determine them, and a fit is too sure of itself. The
posterior is the mean over a fixed grid of them, each weighted by its evidence (Rasmussen and Williams 2006, sections
2.3 and 5.2). The variance of the signal is integrated out in closed form under an inverse gamma prior (Murphy 2012,
section 7.6.3). So neither an optimizer, SciPy nor random numbers are needed: the same runs give the same posterior.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import NDArray

from tuner.results.metric import FloatArray

IntArray = NDArray[np.int64]

LENGTH_SCALES = (0.15, 0.25, 0.4, 0.65, 1.0, 1.6, 3.0)
"""Between points that are at most 1 apart."""
NOISE_RATIOS = (0.03, 0.1, 0.3, 0.8, 2.0)
"""Variance of a score over seeds, as a multiple of that of the true scores over configurations."""
NOISE_TRENDS = (-0.75, 0.0, 0.75)
"""Slopes of the logarithm of that variance over the level of a configuration, from -1 (lowest) to 1 (highest).

Steeper ones are found by chance in 30 runs, and then the interval is too narrow."""
MEAN_VARIANCE = 4.0
"""Of the constant mean around that of the data, as a multiple of the variance of the signal."""
SHAPE, SCALE = 2.0, 1.0
"""Of the inverse gamma prior of the variance of the signal, where the scores have variance 1."""

_LEAST_WEIGHT = 1e-4
"""Of a point of the grid that is left out."""


@dataclass(frozen=True)
class Observations:
    """Noisy scores of configurations.

    Attributes:
        points: Of all configurations, [C, D], no two of which are more than 1 apart.
        owners: Whose score it is, [N], an index into the points.
        scores: [N].
        variances: Of the noise of each besides that of its seed, [N], in squared units of the score.
    """

    points: FloatArray
    owners: IntArray
    scores: FloatArray
    variances: FloatArray


@dataclass(frozen=True)
class Posterior:
    """Posterior distribution of the true scores of configurations.

    Attributes:
        means: [C].
        covariance: [C, C].
        noise: Variance over seeds of a further run of each, [C].
    """

    means: FloatArray
    covariance: FloatArray
    noise: FloatArray

    @property
    def deviations(self) -> FloatArray:
        """Standard deviations of the true scores, [C]."""
        return np.asarray(np.sqrt(np.maximum(np.diag(self.covariance), 0.0)))

    def variances_of_differences(self, index: int) -> FloatArray:
        """Variance of the difference between each true score and that of one configuration, [C]."""
        own = np.diag(self.covariance)
        return np.asarray(np.maximum(own + own[index] - 2.0 * self.covariance[index], 0.0))


def posterior(seen: Observations) -> Posterior:
    """Posterior of the true scores of all configurations, those without a score of their own included.

    The level of a configuration, which its noise follows, is its rank by a first posterior whose noise has no trend
    (most likely heteroscedastic regression, Kersting et al. 2007, with a log-linear noise).
    """
    level = np.zeros(len(seen.points))
    first = _Grid(seen, level, (0.0,)).posterior()
    return _Grid(seen, _levels(first.means), NOISE_TRENDS).posterior()


def matern(points: FloatArray, length_scale: float) -> FloatArray:
    """The Matern covariance with nu = 5/2 between points [C, D], [C, C], of signals with variance 1."""
    squared = ((points[:, None] - points[None]) ** 2).sum(axis=-1)
    distance = np.sqrt(5.0 * squared) / length_scale
    return np.asarray((1.0 + distance + distance**2 / 3.0) * np.exp(-distance))


def _levels(means: FloatArray) -> FloatArray:
    """Ranks from -1 to 1."""
    ranks = np.argsort(np.argsort(means, kind="stable"), kind="stable")
    return np.asarray(2.0 * ranks / max(len(means) - 1, 1) - 1.0)


class _Grid:
    """The posteriors at all points of the grid.

    Args:
        seen: The scores.
        level: Of each configuration, [C], between -1 and 1.
        trends: Of the noise.
    """

    def __init__(self, seen: Observations, level: FloatArray, trends: tuple[float, ...]) -> None:
        self._seen = seen
        self._centre = float(np.mean(seen.scores))
        self._unit = float(np.std(seen.scores)) or 1.0
        self._scores = (seen.scores - self._centre) / self._unit
        # [G, C]: noise of a run of each configuration at each point of the grid, in units of the signal
        self._noise = np.array([ratio * np.exp(trend * level) for ratio, trend in product(NOISE_RATIOS, trends)])

    def posterior(self) -> Posterior:
        """The mixture over the grid, as a mean and a covariance."""
        kept = list(self._of_all_length_scales())
        most = max(float(found.evidence.max()) for found in kept)
        weights = [np.exp(found.evidence - most) for found in kept]
        total = sum(float(weight.sum()) for weight in weights)
        parts = [
            (weight / total, *found.moments(index))
            for found, own in zip(kept, weights, strict=True)
            for index, weight in enumerate(own)
            if weight / total > _LEAST_WEIGHT
        ]
        share = np.array([weight for weight, *_ in parts])
        share /= share.sum()
        means, covariances, noise = (np.array(column) for column in zip(*(rest for _, *rest in parts), strict=True))
        middle = share @ means
        off = means - middle
        covariance = np.tensordot(share, covariances, 1) + (off * share[:, None]).T @ off
        return Posterior(middle * self._unit + self._centre, covariance * self._unit**2, share @ noise * self._unit**2)

    def _of_all_length_scales(self) -> Iterator["_Solved"]:
        owners = self._seen.owners
        extra = self._seen.variances / self._unit**2
        for length_scale in LENGTH_SCALES:
            prior = matern(self._seen.points, length_scale) + MEAN_VARIANCE
            diagonal = self._noise[:, owners] + extra
            covariances = prior[np.ix_(owners, owners)] + diagonal[:, None] * np.eye(len(owners))
            yield _Solved(
                prior, owners, np.asarray(np.linalg.cholesky(covariances), dtype=np.float64), self._scores, self._noise
            )


class _Solved:
    """The regressions of one length scale and all noises, with the evidence of each.

    Args:
        prior: Covariance of the true scores, [C, C], in units of the signal.
        owners: [N].
        factors: Cholesky factors of the covariances of the scores, [G, N, N].
        scores: [N].
        noise: [G, C].
    """

    def __init__(
        self, prior: FloatArray, owners: IntArray, factors: FloatArray, scores: FloatArray, noise: FloatArray
    ) -> None:
        self._prior, self._owners, self._factors, self._noise = prior, owners, factors, noise
        self._white = np.linalg.solve(factors, np.broadcast_to(scores, factors.shape[:2])[..., None])[..., 0]
        self._shape = SHAPE + 0.5 * len(scores)
        self._scale = SCALE + 0.5 * (self._white**2).sum(axis=-1)
        halves = np.log(np.diagonal(factors, axis1=-2, axis2=-1)).sum(axis=-1)
        self.evidence = -halves - self._shape * np.log(self._scale)
        """Logarithms, [G], up to a constant."""

    def moments(self, index: int) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Means [C] and covariance [C, C] of the true scores, and the noise [C], at a point of the grid."""
        white = np.linalg.solve(self._factors[index], self._prior[self._owners])
        signal = self._scale[index] / (self._shape - 1.0)
        covariance = signal * (self._prior - white.T @ white)
        return white.T @ self._white[index], covariance, signal * self._noise[index]
