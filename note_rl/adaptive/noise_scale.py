"""The gradient noise scale over time (see `note_rl.learners.batch_noise_scale`), and when it can be relied upon."""

import math
from typing import Any

from note_rl.adaptive.running_means import RunningMean
from note_rl.learners.batch_noise_scale import NoiseMoments

_FEWEST = 20  # measurements
_MARGIN = 10.0  # samples seen, in terms of the noise scale itself


class NoiseScale:
    """Measurements of one loss over time, numerator and denominator smoothed apart.

    Args:
        smooth: Weight of the newest measurement.
        warm_up: Measurements before it can be relied upon; never fewer than 20.
    """

    def __init__(self, smooth: float = 0.2, warm_up: int = 0) -> None:
        self._fewest = max(_FEWEST, warm_up)
        self._variance = RunningMean(smooth)
        self._squared_norm = RunningMean(smooth)
        self._square = RunningMean(smooth)  # of squared_norm, for its standard error
        self._means = (self._variance, self._squared_norm, self._square)

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
        if self.count < self._fewest:
            return f"unreliable: {self.count} of {self._fewest} measurements"
        value = self.value
        if math.isnan(value):
            return "unreliable: the gradient is lost in its noise"
        if self._squared_norm.num_effective * batch_size < _MARGIN * value:
            return f"unreliable: too few samples for a noise scale of about {value:.0f}"
        return None

    def to_json(self) -> list[list[float]]:
        """For checkpoints."""
        return [mean.to_json() for mean in self._means]

    def take(self, stored: Any) -> None:
        """Goes on from what to_json() gave."""
        for mean, values in zip(self._means, stored, strict=True):
            mean.take(values)
