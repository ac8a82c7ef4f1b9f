"""Statistics over a table of scores, [R, E]: R runs of one entrant in each of E environments, on one scale.

Definitions and values are those of rliable (Agarwal et al. 2021, https://arxiv.org/abs/2108.13264). Intervals are wider
than its plain percentiles, as few runs ask for: see `tuner.results.statistics.bootstrap_interval`.
"""

from collections.abc import Callable
from typing import Final

import numpy as np

from tuner.results.statistics import FloatArray, Interval, expanded_tail, probability_of_improvement

RESAMPLES: Final = 2000
_LEVEL: Final = 0.95


def pooled_iqm(tables: FloatArray) -> FloatArray:
    """Interquartile mean of all runs in all environments together, [..., R, E] -> [...].

    A quarter of the scores, rounded down, is left out at each end, as `scipy.stats.trim_mean` does. Where the number of
    scores is a multiple of four this is `tuner.results.statistics.iqm`; elsewhere that one cuts a score in parts.
    """
    scores = np.sort(tables.reshape(*tables.shape[:-2], -1), axis=-1)
    cut = scores.shape[-1] // 4
    return np.asarray(scores[..., cut : scores.shape[-1] - cut].mean(axis=-1))


def pooled_interval(table: FloatArray) -> Interval:
    """95 % interval of the interquartile mean, by a bootstrap over the runs within each environment."""
    return _ends(pooled_iqm(_resampled(table, np.random.default_rng(0))), table)


def difference_of_iqms(first: FloatArray, second: FloatArray) -> tuple[float, Interval]:
    """Interquartile mean of the first minus that of the second, and its 95 % interval.

    Runs in the same place of both tables share a seed and are drawn together, so what a hard seed does to both cancels.
    """
    draws = (_resampled(table, np.random.default_rng(0)) for table in (first, second))
    differences = np.subtract(*map(pooled_iqm, draws))
    return float(pooled_iqm(first) - pooled_iqm(second)), _ends(differences, first)


def profile(table: FloatArray, thresholds: FloatArray) -> FloatArray:
    """Performance profile: the share of all runs whose score is above each of the thresholds, [T]."""
    return np.asarray((table[..., None] > thresholds).mean(axis=(0, 1)))


def profile_band(table: FloatArray, thresholds: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Both ends of the 95 % interval of a profile at each of the thresholds, [T] each."""
    draws = _resampled(table, np.random.default_rng(0), 500)
    shares = np.stack([(draws > threshold).mean(axis=(1, 2)) for threshold in thresholds], axis=-1)
    tail = expanded_tail(_LEVEL, *table.shape)
    low, high = np.quantile(shares, [tail, 1 - tail], axis=0)
    return low, high


def improvement(first: FloatArray, second: FloatArray) -> float:
    """How probable it is that a run of the first scores higher than one of the second: mean over the environments."""
    return float(np.mean([probability_of_improvement(x, y) for x, y in zip(first.T, second.T, strict=True)]))


def improvement_interval(first: FloatArray, second: FloatArray) -> Interval:
    """95 % interval of `improvement`, by a bootstrap over the runs of both within each environment."""
    source = np.random.default_rng(0)
    x, y = (_resampled(table, source)[:, :, None] for table in (first, second))
    return _ends(_over_chunks(_improvements, x, y), first)


def _improvements(x: FloatArray, y: FloatArray) -> FloatArray:
    """[B, R, 1, E] each -> [B]."""
    other = np.swapaxes(y, 1, 2)
    return np.asarray(((x > other) + 0.5 * (x == other)).mean(axis=(1, 2, 3)))


def _over_chunks(statistic: Callable[[FloatArray, FloatArray], FloatArray], x: FloatArray, y: FloatArray) -> FloatArray:
    """In parts, as all pairs of all resamples at once may need more memory than there is."""
    step = max(1, 4_000_000 // (x.shape[1] * y.shape[1] * x.shape[3]))
    return np.concatenate([statistic(x[at : at + step], y[at : at + step]) for at in range(0, len(x), step)])


def _resampled(table: FloatArray, source: np.random.Generator, resamples: int = RESAMPLES) -> FloatArray:
    """Runs drawn with replacement within each environment, [resamples, R, E]."""
    rows = source.integers(table.shape[0], size=(resamples, *table.shape))
    return np.asarray(table[rows, np.arange(table.shape[1])])


def _ends(found: FloatArray, table: FloatArray) -> Interval:
    tail = expanded_tail(_LEVEL, *table.shape)
    low, high = np.quantile(found, [tail, 1 - tail])
    return Interval(float(low), float(high))
