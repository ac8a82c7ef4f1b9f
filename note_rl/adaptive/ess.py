"""Effective sample sizes of priorities, importance weights and probability ratios; pure functions in NumPy.

The effective sample size of weights w [n] is (sum w)^2 / sum w^2 (Kong 1992; Kish 1965), between 1 and n; as a share of
n it is 1 / (1 + CV^2), CV being the deviation of the weights divided by their mean. It is a rule of thumb, which knows
nothing of what is averaged (Elvira, Martino & Robert 2022, https://arxiv.org/abs/1809.04129): a sign of health, and no
number of samples to be put into formulas.

Four of them are distinguished: of priorities (how many transitions replay really draws), of importance weights in a
minibatch, of raw ratios of new to old policy (how far it has moved), and of clipped ratios, which is at least 1 - c^2
whatever the policy does, so that it is shown and never controlled by.
"""

import logging
import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from note_rl.types import FloatArray

_log = logging.getLogger(__name__)
_BINS, _DEEPEST = 4096, 100.0  # of a histogram of logarithms


@dataclass(frozen=True)
class WeightSums:
    """Sums from which effective sample sizes are computed. Those of parts of the data are added, never averaged.

    Attributes:
        count: n, the entries that count.
        total: Their sum, in units of `scale`.
        squares: The sum of their squares, in units of `scale` squared.
        log_scale: Logarithm of that unit.
        dropped: Entries that were no finite number of at least 0.
    """

    count: int = 0
    total: float = 0.0
    squares: float = 0.0
    log_scale: float = -math.inf
    dropped: int = 0

    @property
    def ess(self) -> float:
        """1 to n; n if all weights are 0, as samplers then draw uniformly; nan of nothing."""
        if not self.count:
            return math.nan
        return self.total**2 / self.squares if self.squares > 0.0 else float(self.count)

    @property
    def fraction(self) -> float:
        """The same as a share of n, 1/n to 1."""
        return self.ess / self.count if self.count else math.nan

    def __add__(self, other: "WeightSums") -> "WeightSums":
        """Of both parts together."""
        scale = max(self.log_scale, other.log_scale)
        ours, theirs = (math.exp(sums.log_scale - scale) if sums.squares > 0.0 else 0.0 for sums in (self, other))
        return WeightSums(
            self.count + other.count,
            self.total * ours + other.total * theirs,
            self.squares * ours**2 + other.squares * theirs**2,
            scale,
            self.dropped + other.dropped,
        )


def of_log_weights(log_weights: ArrayLike) -> WeightSums:
    """Sums of weights exp(l), of which none overflows; l = -inf is a weight of 0.

    Args:
        log_weights: l, of any shape. Entries that are nan or +inf are left out and counted.
    """
    values = np.asarray(log_weights, np.float64).ravel()
    valid = values[~np.isnan(values) & (values != np.inf)]
    dropped = len(values) - len(valid)
    if dropped:
        _log.debug("%d weights that are no finite numbers were left out", dropped)
    top = float(valid.max()) if len(valid) else -math.inf
    if top == -math.inf:
        return WeightSums(len(valid), dropped=dropped)
    weights = np.exp(valid - top)
    return WeightSums(len(valid), float(weights.sum()), float(np.square(weights).sum()), top, dropped)


def of_weights(weights: ArrayLike) -> WeightSums:
    """The same of weights w themselves; entries below 0 are left out, too."""
    values = np.asarray(weights, np.float64).ravel()
    with np.errstate(divide="ignore", invalid="ignore"):
        return of_log_weights(np.log(values))


def clipped_ratios(ratio: ArrayLike, clip: float) -> WeightSums:
    """Sums of ratios cut to 1 - clip ... 1 + clip: to be shown beside those of the raw ones."""
    return of_weights(np.clip(np.asarray(ratio, np.float64), 1.0 - clip, 1.0 + clip))


def kl_of_fraction(fraction: float) -> float:
    """The KL divergence that an effective share of raw ratios stands for: phi = exp(-2 KL) for shifted Gaussians."""
    return -0.5 * math.log(fraction) if fraction > 0.0 else math.inf


def exponent_for(errors: FloatArray, fraction: float, highest: float = 1.0, tolerance: float = 1e-4) -> float:
    """The exponent alpha of priorities |error|^alpha at which their effective share is `fraction`.

    The share never rises with alpha (d log phi / d alpha = 2 (E_alpha - E_2alpha) log w <= 0), so halving the interval
    finds it, as adaptive tempering does in sequential Monte Carlo.

    Args:
        errors: Positive numbers [n].
        fraction: The share asked for.
        highest: alpha lies between 0 and this.
        tolerance: Of alpha.
    """
    log_errors, counts = _counted(np.log(np.asarray(errors, np.float64)))

    def fraction_at(alpha: float) -> float:
        weights = np.exp(alpha * log_errors)
        total, squares = counts @ weights, counts @ np.square(weights)
        return float(total**2 / squares / counts.sum())

    low, high = 0.0, highest
    if fraction_at(high) >= fraction:
        return high
    while high - low > tolerance:
        middle = 0.5 * (low + high)
        if fraction_at(middle) >= fraction:
            low = middle
        else:
            high = middle
    return 0.5 * (low + high)


def _counted(logs: FloatArray) -> tuple[FloatArray, FloatArray]:
    """A histogram: centres of bins, below the largest by at most 100, and how many there are in each."""
    logs = np.maximum(logs - logs.max(), -_DEEPEST)
    width = max(-float(logs.min()), 1e-12) / _BINS
    counts = np.bincount((-logs / width).astype(np.int64), minlength=_BINS + 1).astype(np.float64)
    return -width * (np.arange(len(counts)) + 0.5), counts
