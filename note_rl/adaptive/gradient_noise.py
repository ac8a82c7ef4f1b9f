"""The gradient noise scale (McCandlish et al. 2018, https://arxiv.org/abs/1812.06162, appendix A.1).

With g the gradient of one sample, G its mean and Sigma its covariance, B_simple = tr(Sigma) / |G|^2 is the batch size
at which noise and signal are equal. A loss that is multiplied by a number has the same B_simple, while the variance of
its gradient grows with the square.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from note_rl.adaptive.smoothing import RunningMean
from note_rl.types import FloatArray

_FEWEST = 20  # measurements
_MARGIN = 10.0  # samples seen, in terms of the noise scale itself


@dataclass(frozen=True)
class NoiseMoments:
    """One measurement, both parts unbiased.

    Attributes:
        variance: S, of the trace of the covariance of the gradient of one sample.
        squared_norm: G2, of the squared norm of the mean gradient; may be below 0.
    """

    variance: float
    squared_norm: float

    def agrees_with(self, other: "NoiseMoments") -> bool:
        """Whether both are the same but for rounding."""
        tolerance = 1e-3 * (abs(self.variance) + abs(self.squared_norm)) + 1e-12
        return (
            abs(self.variance - other.variance) <= tolerance
            and abs(self.squared_norm - other.squared_norm) <= tolerance
        )


def of_norms(small: float, big: float, num_small: int, num_big: int) -> NoiseMoments:
    """From squared norms of mean gradients of the same samples, in parts and together.

    Args:
        small: Mean of |G_b|^2 over parts of b samples each.
        big: |G_B|^2 of all of them together.
        num_small: b.
        num_big: B = K b, more than b.
    """
    return NoiseMoments(
        (small - big) / (1.0 / num_small - 1.0 / num_big),
        (num_big * big - num_small * small) / (num_big - num_small),
    )


def of_microbatches(gradients: FloatArray, num_small: int) -> NoiseMoments:
    """From the mean gradients of K >= 2 parts of a minibatch. With num_small = 1 these are those of single samples.

    Args:
        gradients: [K, P].
        num_small: Samples in each part.
    """
    small = float(np.mean(np.square(gradients).sum(axis=1)))
    big = float(np.square(gradients.mean(axis=0)).sum())
    return of_norms(small, big, num_small, num_small * len(gradients))


class NoiseScale:
    """Measurements of one loss over time, numerator and denominator smoothed apart.

    Args:
        smooth: Weight of the newest measurement.
    """

    def __init__(self, smooth: float = 0.2) -> None:
        self._variance = RunningMean(smooth)
        self._squared_norm = RunningMean(smooth)
        self._square = RunningMean(smooth)  # of squared_norm, for its standard error

    @property
    def count(self) -> int:
        """Measurements so far."""
        return self._variance.count

    def add(self, moments: NoiseMoments) -> None:
        """One more measurement; one that is not finite is left out."""
        if math.isfinite(moments.variance) and math.isfinite(moments.squared_norm):
            self._variance.add(moments.variance)
            self._squared_norm.add(moments.squared_norm)
            self._square.add(moments.squared_norm**2)

    @property
    def value(self) -> float:
        """B_simple; nan while the squared norm is not clearly above 0 (by two standard errors)."""
        if not self.count:
            return math.nan
        mean = self._squared_norm.value
        if mean <= 2.0 * self._standard_error():
            return math.nan
        return max(self._variance.value, 0.0) / mean

    def _standard_error(self) -> float:
        spread = max(self._square.value - self._squared_norm.value**2, 0.0)
        num = self._squared_norm.num_effective
        return math.sqrt(spread / max(num - 1.0, 1.0)) if num > 1.0 else 0.0

    def why_unreliable(self, batch_size: int) -> str | None:
        """None where the value can be acted upon; otherwise the reason.

        Args:
            batch_size: Samples of one measurement.
        """
        if self.count < _FEWEST:
            return f"unreliable: {self.count} of {_FEWEST} measurements"
        value = self.value
        if math.isnan(value):
            return "unreliable: the gradient is lost in its noise"
        if self._squared_norm.num_effective * batch_size < _MARGIN * value:
            return f"unreliable: too few samples for a noise scale of about {value:.0f}"
        return None

    def to_json(self) -> list[list[float]]:
        """For checkpoints."""
        return [one.to_json() for one in (self._variance, self._squared_norm, self._square)]

    def take(self, stored: Any) -> None:
        """Goes on from what to_json() gave."""
        for one, values in zip((self._variance, self._squared_norm, self._square), stored, strict=True):
            one.take(values)
