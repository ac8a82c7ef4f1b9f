"""Values over time. A schedule maps progress, the share of the training budget already used (0 to 1), to a value."""

import math
from collections.abc import Callable
from dataclasses import dataclass

from note_rl.errors import SettingsError

Schedule = Callable[[float], float]


def _check_fraction(fraction: float) -> None:
    if not 0.0 < fraction <= 1.0:
        raise SettingsError(f"fraction is the share of training the schedule takes: in (0, 1], got {fraction}")


@dataclass(frozen=True)
class Constant:
    """The same value throughout."""

    value: float

    def __call__(self, progress: float) -> float:
        """The value, whatever the progress."""
        return self.value


@dataclass(frozen=True)
class Linear:
    """From `start` to `end` in a straight line over the first `fraction` of training, `end` afterwards."""

    start: float
    end: float
    fraction: float = 1.0

    def __post_init__(self) -> None:
        """Refuses a fraction outside (0, 1]."""
        _check_fraction(self.fraction)

    def __call__(self, progress: float) -> float:
        """The value at this progress."""
        done = min(max(progress, 0.0) / self.fraction, 1.0)
        return self.start + (self.end - self.start) * done


@dataclass(frozen=True)
class Exponential:
    """From `start` to `end` by a constant factor per step over the first `fraction` of training."""

    start: float
    end: float
    fraction: float = 1.0

    def __post_init__(self) -> None:
        """Refuses a fraction outside (0, 1] and ends that no factor connects."""
        _check_fraction(self.fraction)
        if self.start <= 0.0 or self.end <= 0.0:
            raise SettingsError(f"an exponential schedule needs start and end above 0, got {self.start} and {self.end}")

    def __call__(self, progress: float) -> float:
        """The value at this progress."""
        done = min(max(progress, 0.0) / self.fraction, 1.0)
        return self.start * math.exp(math.log(self.end / self.start) * done)
