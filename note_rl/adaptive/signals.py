"""From measurements to health: smoothing, targets, and when a signal cannot be relied upon."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from note_rl.adaptive.ess import WeightSums, kl_of_fraction
from note_rl.adaptive.noise_scale import NoiseScale
from note_rl.adaptive.smoothing import RunningMean
from note_rl.learners.gradient_noise import NoiseMoments


@dataclass(frozen=True)
class Health:
    """How well training does by one signal.

    Attributes:
        signal: Its name.
        value: What was measured, smoothed: a share, a divergence, or noise over batch size.
        target: What is wished.
        q: 1 as wished, below 1 worse.
        kl_q: The same in terms of KL divergence, where the signal can be read as one.
        why_not: Why it cannot be relied upon; None: it can.
    """

    signal: str
    value: float
    target: float
    q: float
    kl_q: float = math.nan
    skip_reason: str | None = None

    @property
    def noise_factor(self) -> float:
        """(1 + target) / (1 + noise), by which a step may be longer; q for signals that are no noise."""
        return (1.0 + self.target) / (1.0 + self.value) if self.signal == "gradient_noise" else self.q


def worst(healths: Iterable[Health]) -> Health:
    """The least of those that can be relied upon; one that cannot, if none can."""
    several = list(healths)
    reliable = [one for one in several if one.skip_reason is None]
    return min(reliable or several, key=lambda one: one.q if math.isfinite(one.q) else math.inf)


class Target:
    """What is wished of a signal: a number, or the median of its first values.

    Args:
        told: The number, or "auto".
        calibration: How many values.
    """

    def __init__(self, told: float | str, calibration: int) -> None:
        self._told = told
        self._calibration = calibration
        self.first: list[float] = []

    def add(self, value: float) -> None:
        """One more value."""
        if self._told == "auto" and len(self.first) < self._calibration and math.isfinite(value):
            self.first.append(value)

    @property
    def value(self) -> float | None:
        """None while it is not known yet."""
        if not isinstance(self._told, str):
            return float(self._told)
        return float(np.median(self.first)) if len(self.first) >= self._calibration else None


class MeanSignal:
    """An effective sample size (smoothed as 1 + CV^2 of the weights) or a KL divergence.

    Args:
        name: Of the signal.
        smooth: Weight of the newest measurement.
        target: What is wished.
        warm_up: Measurements before it counts.
    """

    def __init__(self, name: str, smooth: float, target: Target, warm_up: int) -> None:
        self.name = name
        self.target = target
        self._mean = RunningMean(smooth)
        self._warm_up = warm_up

    def add(self, measured: WeightSums | float) -> None:
        """One more measurement; what is not finite is left out."""
        raw = 1.0 / measured.fraction if isinstance(measured, WeightSums) and measured.count else measured
        if isinstance(raw, float) and math.isfinite(raw):
            self._mean.add(raw)
            self.target.add(self.value)

    @property
    def value(self) -> float:
        """The effective share, or the divergence; nan before the first measurement."""
        if not self._mean.count:
            return math.nan
        return self._mean.value if self.name == "kl" else 1.0 / self._mean.value

    def health(self, target: float | None = None) -> Health:
        """By now; by a target of the caller's own, if there is one."""
        value, target = self.value, self.target.value if target is None else target
        if self._mean.count < self._warm_up:
            skip_reason = f"warm-up: {self._mean.count} of {self._warm_up} measurements"
            return Health(self.name, value, target or math.nan, math.nan, skip_reason=skip_reason)
        if target is None:
            return Health(self.name, value, math.nan, math.nan, skip_reason="calibration of the target")
        if self.name == "kl":
            q = target / max(value, 1e-12)
            return Health(self.name, value, target, q, q)
        q = value / target
        # a share that is met exactly has no divergence to speak of
        kl_q = kl_of_fraction(min(target, 1.0 - 1e-12)) / max(kl_of_fraction(min(value, 1.0)), 1e-12)
        return Health(self.name, value, target, q, kl_q)

    def to_json(self) -> dict[str, Any]:
        """For checkpoints."""
        return {"mean": self._mean.to_json(), "first": self.target.first}

    def take(self, stored: Any) -> None:
        """Goes on from what to_json() gave."""
        self._mean.take(stored["mean"])
        self.target.first = [float(value) for value in stored["first"]]


class NoiseSignal:
    """The gradient noise scale of every loss, each by itself.

    Args:
        smooth: Weight of the newest measurement.
        target: Wished noise over batch size.
    """

    name = "gradient_noise"

    def __init__(self, smooth: float, target: Target) -> None:
        self.target = target
        self.scales: list[NoiseScale] = []
        self._smooth = smooth
        self._measured_with = 0  # samples

    def add(self, moments: list[NoiseMoments], batch_size: int) -> None:
        """One measurement of every loss, from a minibatch of so many samples."""
        if len(self.scales) != len(moments):
            self.scales = [NoiseScale(self._smooth) for _ in moments]
        for scale, one in zip(self.scales, moments, strict=True):
            scale.add(one)
        self._measured_with = batch_size

    def scale_of(self, loss: int | None) -> float:
        """B_simple of one loss, or the largest of all; nan if unknown."""
        found = [one.value for one in self._of(loss) if one.why_unreliable(self._measured_with) is None]
        return max(found, default=math.nan)

    def health(self, batch_size: float, loss: int | None = None, target: float | None = None) -> Health:
        """By now, for minibatches of a size.

        Args:
            batch_size: Which the noise is divided by.
            loss: One of the losses; None: the noisiest counts.
            target: Instead of its own.
        """
        target = self.target.value if target is None else target
        if not self.scales or target is None:
            return Health(self.name, math.nan, math.nan, math.nan, skip_reason="warm-up: no measurement")
        reasons = [one.why_unreliable(self._measured_with) for one in self._of(loss)]
        noise = self.scale_of(loss) / batch_size
        if math.isnan(noise):
            return Health(self.name, math.nan, target, math.nan, skip_reason=next(filter(None, reasons), "unreliable"))
        return Health(self.name, noise, target, target / max(noise, 1e-12))

    def _of(self, loss: int | None) -> list[NoiseScale]:
        return self.scales if loss is None or len(self.scales) <= loss else [self.scales[loss]]

    def to_json(self) -> dict[str, Any]:
        """For checkpoints."""
        return {
            "scales": [one.to_json() for one in self.scales],
            "measured_with": self._measured_with,
            "first": self.target.first,
        }

    def take(self, stored: Any) -> None:
        """Goes on from what to_json() gave."""
        self.scales = [NoiseScale(self._smooth) for _ in stored["scales"]]
        for scale, values in zip(self.scales, stored["scales"], strict=True):
            scale.take(values)
        self._measured_with = int(stored["measured_with"])
        self.target.first = [float(value) for value in stored["first"]]
