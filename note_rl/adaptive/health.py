"""How well training does by a signal, and what is wished of it."""

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Health:
    """How well training does by one signal.

    Attributes:
        signal: Its name.
        value: What was measured, smoothed: a share, a divergence, or noise over batch size.
        target: What is wished.
        ratio: To the target: 1 as wished, below 1 worse, whichever way the value itself goes.
        kl_ratio: The same in terms of KL divergence; nan where the signal cannot be read as one.
        skip_reason: Why it cannot be relied upon; None: it can.
        noise_factor: (1 + target) / (1 + noise), by which a step may be longer; nan where the signal is no noise.
    """

    signal: str
    value: float
    target: float
    ratio: float
    kl_ratio: float = math.nan
    skip_reason: str | None = None
    noise_factor: float = math.nan


def skipped(signal: str, reason: str, value: float = math.nan, target: float = math.nan) -> Health:
    """Returns what is to be said of a signal that cannot be relied upon."""
    return Health(signal, value, target, math.nan, skip_reason=reason)


def worst(healths: Iterable[Health]) -> Health:
    """Returns the least of those that can be relied upon; one that cannot, if none can."""
    everyone = list(healths)
    reliable = [health for health in everyone if health.skip_reason is None]
    return min(reliable or everyone, key=lambda health: health.ratio if math.isfinite(health.ratio) else math.inf)


class Target:
    """The target value of a signal: a number, or the median of its first values.

    Args:
        wished: The number, or "auto".
        calibration: How many values.
    """

    def __init__(self, wished: float | str, calibration: int) -> None:
        self._wished = wished
        self._calibration = calibration
        self.first: list[float] = []

    def add(self, value: float) -> None:
        """Takes note of one more value."""
        if self._wished == "auto" and len(self.first) < self._calibration and math.isfinite(value):
            self.first.append(value)

    @property
    def value(self) -> float | None:
        """None while it is not known yet."""
        if not isinstance(self._wished, str):
            return float(self._wished)
        return float(np.median(self.first)) if len(self.first) >= self._calibration else None
