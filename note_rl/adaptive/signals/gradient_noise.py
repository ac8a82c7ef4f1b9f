"""How much the gradients of single samples scatter (McCandlish et al. 2018, https://arxiv.org/abs/1812.06162)."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

from note_rl.adaptive.health import Health, Target, skipped
from note_rl.adaptive.noise_scale import NoiseScale
from note_rl.adaptive.signals.base import TINY, Signal, TrainingView
from note_rl.learners.batch_noise_scale import NoiseMoments
from note_rl.settings.experience import RolloutSettings
from note_rl.settings.signals import register
from note_rl.types import FloatArray, Sample

_MOST_MINIBATCHES = 8  # of an update block, among which distinct transitions are looked for


@dataclass(frozen=True)
class NoiseReading:
    """One measurement of every loss.

    Attributes:
        moments: Of each loss.
        num_samples: That it was made with: distinct ones, in equal parts.
        batch_size: Of the minibatches that are learned from, as set.
    """

    moments: Sequence[NoiseMoments]
    num_samples: int
    batch_size: int


@register
class GradientNoise(Signal):
    """The gradient noise scale over the batch size."""

    name = "gradient_noise"
    text = "gradient noise scale over batch size: 1 where noise and signal of a gradient are equal"
    target = 1.0
    larger_is_better = False
    scales_with_batch = True
    reads_gradients = True

    def before_update(self, sample: Sample, view: TrainingView) -> NoiseReading:
        """Reads the gradients of the parameters as they are, which costs more than all other signals together."""
        rollout = isinstance(view.experience.settings, RolloutSettings)
        few = some_of(sample, slice(_MOST_MINIBATCHES))
        measured = view.learner.gradient_noise(few, view.num_envs if rollout else None)
        return NoiseReading(*measured, view.experience.settings.batch_size)

    def begin(self, smooth: float, target: Target, warm_up: int) -> "MeasuredNoise":
        """Returns a running measurement; more readings than `warm_up` are needed where they scatter."""
        return MeasuredNoise(self, smooth, target, warm_up)


class MeasuredNoise:
    """The noise scale of every loss, each by itself.

    Args:
        signal: Whose readings these are.
        smooth: Weight of the newest reading.
        target: Wished noise over batch size.
        warm_up: Readings before it is relied upon, at least.
    """

    def __init__(self, signal: Signal, smooth: float, target: Target, warm_up: int) -> None:
        self.signal = signal
        self.target = target
        self.scales: list[NoiseScale] = []
        self._smooth, self._warm_up = smooth, warm_up
        self._measured_with = 0  # samples

    def add(self, reading: NoiseReading) -> None:
        """Takes one more reading."""
        if len(self.scales) != len(reading.moments):
            self.scales = [NoiseScale(self._smooth, self._warm_up) for _ in reading.moments]
        for scale, moments in zip(self.scales, reading.moments, strict=True):
            scale.add(moments)
        self._measured_with = reading.num_samples
        self.target.add(self.value / reading.batch_size)

    @property
    def value(self) -> float:
        """The scale of the noisiest loss, not divided by any batch size."""
        return self.scale_of(None)

    def scale_of(self, loss: int | None) -> float:
        """Returns B_simple of one loss, or the largest of all; nan if unknown."""
        reliable = [scale.value for scale in self._of(loss) if scale.why_unreliable(self._measured_with) is None]
        return max(reliable, default=math.nan)

    def health(self, batch_size: float, loss: int | None = None, target: float | None = None) -> Health:
        """Returns the current health, for minibatches of a size.

        Args:
            batch_size: Which the noise is divided by.
            loss: One of the losses; None: the noisiest counts.
            target: Instead of its own.
        """
        if target is None:
            target = self.target.value
        if not self.scales:
            return skipped(self.signal.name, "warm-up: no measurement")
        if target is None:
            return skipped(self.signal.name, "calibration of the target")
        noise = self.scale_of(loss) / batch_size
        if math.isnan(noise):
            reasons = [scale.why_unreliable(self._measured_with) for scale in self._of(loss)]
            return skipped(self.signal.name, next(filter(None, reasons), "unreliable"), target=target)
        ratio = target / max(noise, TINY)
        return Health(self.signal.name, noise, target, ratio, noise_factor=(1.0 + target) / (1.0 + noise))

    def _of(self, loss: int | None) -> list[NoiseScale]:
        return self.scales if loss is None or len(self.scales) <= loss else [self.scales[loss]]

    def to_json(self) -> dict[str, Any]:
        """For checkpoints."""
        return {
            "scales": [scale.to_json() for scale in self.scales],
            "measured_with": self._measured_with,
            "first": self.target.first,
        }

    def take(self, stored: Any) -> None:
        """Goes on from what to_json() gave."""
        self.scales = [NoiseScale(self._smooth, self._warm_up) for _ in stored["scales"]]
        for scale, values in zip(self.scales, stored["scales"], strict=True):
            scale.take(values)
        self._measured_with = int(stored["measured_with"])
        self.target.first = [float(value) for value in stored["first"]]


def some_of(sample: Sample, steps: slice) -> Sample:
    """Returns the minibatches of some gradient steps of an update block."""

    def cut(values: FloatArray | None) -> Any:
        return None if values is None else values[steps]

    columns = [column.name for column in fields(Sample) if column.name != "extras"]
    extras = {name: cut(values) for name, values in sample.extras.items()}
    return Sample(**{name: cut(getattr(sample, name)) for name in columns}, extras=extras)
