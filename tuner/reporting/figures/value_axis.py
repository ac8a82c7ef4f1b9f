"""Values of one parameter on a line from 0 to 1, evenly for the eye."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from tuner.results.number_format import format_value
from tuner.results.records import Scalar, numbers_among

LINEAR: Final = "linear"
LOG: Final = "log"
ONE_MINUS: Final = "one_minus"
CATEGORY: Final = "category"

_WIDE = 10.0
"""Positive values that span this factor are spread by their logarithm where nothing else is known."""


@dataclass(frozen=True)
class AxisScale:
    """Places values between 0 and 1.

    Attributes:
        low: lowest number.
        high: highest number.
        kind: what is equally far apart: equal differences (`LINEAR`), equal factors (`LOG`), equal factors of the
            distance to 1 (`ONE_MINUS`), or one choice and the next (`CATEGORY`).
        choices: the values in order, where they are choices; else empty.
    """

    low: float = 0.0
    high: float = 1.0
    kind: str = LINEAR
    choices: tuple[Scalar, ...] = ()

    @classmethod
    def of(cls, values: Iterable[Scalar], declared: str | None = None) -> "AxisScale":
        """The scale that shows all these values.

        Args:
            values: what is shown.
            declared: how they were searched, see `StudySummary.scales`; None, or a scale that has no place for them:
                what suits the values.
        """
        known = list(dict.fromkeys(values))
        numbers = [number for number in numbers_among(known) if math.isfinite(number)]
        all_numbers = bool(numbers) and len(numbers) == len(known)
        if declared == CATEGORY or not all_numbers:
            choices = sorted(known, key=as_number) if all_numbers else sorted(known, key=str)
            return cls(kind=CATEGORY, choices=tuple(choices))
        low, high = min(numbers), max(numbers)
        fits = {LINEAR: True, LOG: low > 0, ONE_MINUS: high < 1}
        guess = LOG if low > 0 and high / low >= _WIDE else LINEAR
        return cls(low, high, declared if declared is not None and fits.get(declared, False) else guess)

    def place(self, value: Scalar) -> float:
        """Where a value lies; 0.5 if there is only one."""
        if self.choices:
            last = len(self.choices) - 1
            return self.choices.index(value) / last if last else 0.5
        low, high, own = (self._spread(number) for number in (self.low, self.high, as_number(value)))
        return (own - low) / (high - low) if high > low else 0.5

    def ticks(self) -> list[tuple[float, str]]:
        """(place, label) of the ends, of what lies in the middle of them, or of all choices."""
        if self.choices:
            return [(self.place(choice), format_value(choice)) for choice in self.choices]
        if self.low == self.high:
            return [(0.5, _label(self.low))]
        if all(float(end).is_integer() for end in (self.low, self.high)):
            return [(0.0, _label(self.low)), (1.0, _label(self.high))]
        return [(0.0, _label(self.low)), (0.5, _label(self.middle)), (1.0, _label(self.high))]

    @property
    def middle(self) -> float:
        """The number half-way between the ends."""
        if self.kind == LOG:
            return math.sqrt(self.low * self.high)
        if self.kind == ONE_MINUS:
            return 1.0 - math.sqrt((1.0 - self.low) * (1.0 - self.high))
        return (self.low + self.high) / 2

    def _spread(self, number: float) -> float:
        if self.kind == LOG:
            return math.log(number)
        return -math.log(1.0 - number) if self.kind == ONE_MINUS else number


def as_number(value: Scalar) -> float:
    """A value that is known to be a number."""
    assert isinstance(value, int | float)
    return value


def _label(number: float) -> str:
    return format_value(int(number) if float(number).is_integer() and abs(number) < 1e6 else float(number))
