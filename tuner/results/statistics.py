"""Statistics for scores over seeds and trials: pure functions over NumPy arrays, no state and no I/O.

Higher scores are better everywhere. Every function refuses empty and non-finite input with a `ValueError`: what a
diverged or crashed run counts for is decided where the scores are collected, not here.

Sources: Agarwal et al. 2021, "Deep Reinforcement Learning at the Edge of the Statistical Precipice"
(https://arxiv.org/abs/2108.13264, library rliable) for IQM, stratified bootstrap and probability of improvement;
Dodge et al. 2019, "Show Your Work" (https://arxiv.org/abs/1909.03004) for the expected best of k trials.
"""

import math
from collections.abc import Callable
from statistics import NormalDist
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

FloatArray = NDArray[np.float64]
Statistic = Callable[[FloatArray], FloatArray]
"""Reduces the last axis: [..., N] -> [...]."""

RESAMPLES = 5000
"""Enough for two digits of an interval's ends; 5000 x 20 scores take a few milliseconds."""


class Interval(NamedTuple):
    """A confidence interval, both ends included."""

    low: float
    high: float


def iqm(scores: ArrayLike) -> FloatArray:
    """Interquartile mean over the last axis: the mean of the middle half of the sorted scores.

    A quarter of the *mass* is cut at each end. Where N is not a multiple of 4 the scores that straddle a quartile count
    with the share of them that lies inside: sorted score i of N occupies [i, i + 1] and its weight is its overlap with
    [N/4, 3N/4]. For N = 5 the weights are (0, .75, 1, .75, 0). `scipy.stats.trim_mean(x, 0.25)`, which rliable calls,
    drops int(N/4) whole scores instead: nothing at all for N = 3, so a single outlier moves it as it moves the mean.
    Both agree where N is a multiple of 4.

    Args:
        scores: [..., N], N >= 1.

    Returns:
        [...], the interquartile mean; for N <= 2 this is the mean.
    """
    values = np.sort(_finite(scores), axis=-1)
    num_scores = values.shape[-1]
    left = np.arange(num_scores, dtype=np.float64)
    inside = np.minimum(left + 1, 0.75 * num_scores) - np.maximum(left, 0.25 * num_scores)
    weights = np.clip(inside, 0.0, None)
    # A sum and not a matrix product: BLAS may round a permuted row differently.
    return np.asarray((values * (weights / weights.sum())).sum(axis=-1))


def mean(scores: ArrayLike) -> FloatArray:
    """Arithmetic mean over the last axis, [..., N] -> [...]; a `Statistic` like `iqm`."""
    return np.asarray(_finite(scores).mean(axis=-1))


def bootstrap_interval(
    scores: ArrayLike,
    statistic: Statistic = iqm,
    level: float = 0.95,
    resamples: int = RESAMPLES,
    rng: np.random.Generator | None = None,
) -> Interval:
    """Bootstrap interval of a statistic (Agarwal et al. 2021, section 4.1), made as wide as N asks for.

    With few scores a plain percentile interval is too narrow. Its percentiles are therefore moved outwards, as far as
    Student's t is wider than the normal distribution (expanded percentile interval, Hesterberg 2015). With fewer than 5
    scores it still means little, and callers show the points instead.

    Args:
        scores: [N].
        statistic: what is estimated; called once with all resamples, [resamples, N].
        level: coverage aimed at, in (0, 1).
        resamples: number of bootstrap samples.
        rng: source of randomness; a fixed seed by default, so that a report is the same each time it is made.
    """
    values = _finite_vector(scores)
    draws = _resample(values.size, resamples, rng or np.random.default_rng(0))
    return _percentiles(statistic(values[draws]), level, values.size)


def difference_interval(x: ArrayLike, y: ArrayLike, paired: bool = False) -> Interval:
    """95 % bootstrap interval of `iqm(x) - iqm(y)`, as wide as `bootstrap_interval` is for the fewer scores.

    Args:
        x: [N] scores.
        y: [M] scores.
        paired: x[i] and y[i] share a seed (N = M): pairs are drawn together, so what a hard seed does to both cancels.
    """
    first, second = _finite_vector(x), _finite_vector(y)
    source = np.random.default_rng(0)
    draws = _resample(first.size, RESAMPLES, source)
    if paired and first.size != second.size:
        raise ValueError(f"paired scores must have the same length, not {first.size} and {second.size}")
    other_draws = draws if paired else _resample(second.size, RESAMPLES, source)
    return _percentiles(iqm(first[draws]) - iqm(second[other_draws]), 0.95, min(first.size, second.size))


def probability_of_improvement(x: ArrayLike, y: ArrayLike) -> float:
    """P(X > Y) + P(X = Y) / 2 over all pairs: the Mann-Whitney U statistic divided by N * M.

    X = {1, 2, 3} against Y = {0, 2, 4} gives .5.

    Args:
        x: [N] scores of the candidate.
        y: [M] scores of what it is compared with.
    """
    first, second = _finite_vector(x)[:, None], _finite_vector(y)[None, :]
    return float(np.mean((first > second) + 0.5 * (first == second)))


MOST_EXACT = 16
"""Pairs of which all signs are tried."""


def paired_permutation_p(x: ArrayLike, y: ArrayLike) -> float:
    """One-sided p-value of "x is no better than y" by the paired permutation test.

    Were both equally good, each difference x[i] - y[i] could as well have the other sign: p is the share of all 2^N
    choices of signs whose sum is at least the observed one (Fisher 1935, section 21). The smallest p there is is 2^-N;
    three seeds on all of which x is ahead give .125. Of more than `MOST_EXACT` pairs, 2^16 drawn choices of signs are
    tried, to which the observed one is added (Phipson and Smyth 2010).

    Args:
        x: [N] scores of the one that looks better.
        y: [N] scores of the other on the same seeds.
    """
    first, second = _finite_vector(x), _finite_vector(y)
    if first.size != second.size:
        raise ValueError(f"paired scores must have the same length, not {first.size} and {second.size}")
    differences = first - second
    if differences.size <= MOST_EXACT:
        signs = 1 - 2 * ((np.arange(2**differences.size)[:, None] >> np.arange(differences.size)) & 1)
    else:
        signs = np.random.default_rng(0).choice([-1, 1], (2**MOST_EXACT, differences.size))
        signs[0] = 1
    sums = (signs * differences).sum(axis=1)
    tolerance = 1e-9 * np.abs(differences).sum()  # the same sum added up in another order
    return float(np.mean(sums >= differences.sum() - tolerance))


def spearman(x: ArrayLike, y: ArrayLike) -> float:
    """Spearman's rank correlation; ties share the mean of their ranks. NaN where a side is constant (undefined).

    Args:
        x: [N], N >= 2.
        y: [N].
    """
    first, second = _finite_vector(x), _finite_vector(y)
    if first.size != second.size or first.size < 2:
        raise ValueError(f"spearman needs two vectors of the same length >= 2, not {first.size} and {second.size}")
    return float(_rank_correlation(first, second))


def spearman_bound(x: ArrayLike, y: ArrayLike, quantile: float = 0.1) -> float:
    """Lower bound of Spearman's correlation: a quantile over bootstrap resamples of the pairs, always the same ones.

    A resample in which a side is constant shows no agreement and counts as 0. NaN where all of a side is constant.

    Args:
        x: [N], N >= 2.
        y: [N].
        quantile: in (0, 1).
    """
    first, second = _finite_vector(x), _finite_vector(y)
    if math.isnan(spearman(first, second)):
        return math.nan
    draws = _resample(first.size, 1000, np.random.default_rng(0))
    found = _rank_correlation(first[draws], second[draws])
    return float(np.quantile(np.nan_to_num(found), quantile))


def expected_best_of_k(values: ArrayLike, k: int) -> float:
    """Expected maximum of k trials drawn with replacement from the observed ones (Dodge et al. 2019, equation 6).

    E[max_k] = sum_i v_(i) [(i/N)^k - ((i-1)/N)^k] over the sorted values: how much better a longer search of the same
    kind would have done. {0, 1} gives .5, .75, .875 for k = 1, 2, 3.

    Args:
        values: [N] final scores of the trials.
        k: number of trials, >= 1.
    """
    if k < 1:
        raise ValueError(f"k is a number of trials and must be at least 1, not {k}")
    ordered = np.sort(_finite_vector(values))
    upper = np.arange(1, ordered.size + 1, dtype=np.float64) / ordered.size
    return float((ordered * (upper**k - (upper - 1 / ordered.size) ** k)).sum())


def average_ranks(values: FloatArray) -> FloatArray:
    """Ranks from 1 to N over the last axis; equal values share the mean of the ranks they occupy.

    Args:
        values: [..., N], N >= 1.

    Returns:
        [..., N].
    """
    order = np.argsort(values, axis=-1)
    ordered = np.take_along_axis(values, order, axis=-1)
    places = np.arange(values.shape[-1])
    begins = np.ones(values.shape, dtype=bool)  # whether another value stands before, or none
    begins[..., 1:] = ordered[..., 1:] != ordered[..., :-1]
    ends = np.roll(begins, -1, axis=-1)
    first = np.maximum.accumulate(np.where(begins, places, 0), axis=-1)
    last = np.minimum.accumulate(np.where(ends, places, places[-1])[..., ::-1], axis=-1)[..., ::-1]
    ranks = np.empty(values.shape)
    np.put_along_axis(ranks, order, (first + last) / 2 + 1, axis=-1)
    return ranks


def _rank_correlation(x: FloatArray, y: FloatArray) -> FloatArray:
    """Spearman's rank correlation over the last axis, [..., N] -> [...]; NaN where a side is constant."""
    middle = (x.shape[-1] + 1) / 2
    ranks_x, ranks_y = average_ranks(x) - middle, average_ranks(y) - middle
    scale = np.sqrt((ranks_x**2).sum(axis=-1) * (ranks_y**2).sum(axis=-1))
    undefined = np.full(scale.shape, math.nan)
    found: FloatArray = np.divide((ranks_x * ranks_y).sum(axis=-1), scale, out=undefined, where=scale > 0)
    return found


def _resample(num_scores: int, resamples: int, rng: np.random.Generator) -> NDArray[np.intp]:
    """Indices drawn with replacement, [resamples, N]."""
    return rng.integers(num_scores, size=(resamples, num_scores))


def _percentiles(statistics: FloatArray, level: float, num_scores: int) -> Interval:
    tail = expanded_tail(level, num_scores)
    low, high = np.quantile(statistics, [tail, 1 - tail])
    return Interval(float(low), float(high))


def expanded_tail(level: float, num_scores: int, num_groups: int = 1) -> float:
    """The share of resamples below an interval, and above it: less than `(1 - level) / 2`, see `bootstrap_interval`.

    Args:
        level: Coverage aimed at, in (0, 1).
        num_scores: Of each group.
        num_groups: Groups of scores that are resampled each for itself.
    """
    if not 0 < level < 1:
        raise ValueError(f"level is a share between 0 and 1, not {level}")
    if num_scores < 2:
        return (1 - level) / 2
    degrees = num_groups * (num_scores - 1)
    return NormalDist().cdf(-math.sqrt(num_scores / (num_scores - 1)) * student_t(level, degrees))


def student_t(level: float, degrees: int) -> float:
    """The t below which |T| stays with this probability, T being of Student's distribution.

    Args:
        level: In (0, 1).
        degrees: Of freedom.
    """
    low, high = 0.0, math.pi / 2  # of the angle whose tangent is t / sqrt(degrees)
    for _ in range(60):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if _share_within(middle, degrees) < level else (low, middle)
    return math.sqrt(degrees) * math.tan(low)


def _share_within(angle: float, degrees: int) -> float:
    """Probability of |T| <= sqrt(degrees) tan(angle) (Abramowitz and Stegun 1964, 26.7.3 and 26.7.4)."""
    odd = degrees % 2
    term, total = (math.cos(angle) if odd else 1.0), 0.0
    for power in range(1 if odd else 0, degrees - 1, 2):
        total += term
        term *= (power + 1) / (power + 2) * math.cos(angle) ** 2
    return 2 / math.pi * (angle + math.sin(angle) * total) if odd else math.sin(angle) * total


def _finite(scores: ArrayLike) -> FloatArray:
    values = np.asarray(scores, dtype=np.float64)
    if values.ndim == 0 or values.shape[-1] == 0:
        raise ValueError("at least one score is needed")
    if not np.isfinite(values).all():
        raise ValueError("scores must be finite; decide first what a diverged run counts for")
    return values


def _finite_vector(scores: ArrayLike) -> FloatArray:
    values = _finite(scores)
    if values.ndim != 1:
        raise ValueError(f"a vector of scores is needed, not shape {values.shape}")
    return values
