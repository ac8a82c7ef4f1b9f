"""Values of one parameter on a line from 0 to 1, evenly for the eye."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tuner.records import Scalar
from tuner.wording import format_value

_WIDE = 10.0
"""Positive values that span this factor are spread by their logarithm."""


@dataclass(frozen=True)
class Scale:
    """Places values between 0 and 1.

    Attributes:
        low: lowest number.
        high: highest number.
        logarithmic: whether equal factors are equal distances.
        choices: the values in order, where they are no numbers; else empty.
    """

    low: float = 0.0
    high: float = 1.0
    logarithmic: bool = False
    choices: tuple[Scalar, ...] = ()

    @classmethod
    def of(cls, values: Iterable[Scalar]) -> "Scale":
        """The scale that shows all these values."""
        known = list(dict.fromkeys(values))
        numbers = numbers_among(known)
        if len(numbers) < len(known) or not numbers:
            return cls(choices=tuple(sorted(known, key=str)))
        low, high = min(numbers), max(numbers)
        return cls(low, high, logarithmic=low > 0 and high / low >= _WIDE)

    def place(self, value: Scalar) -> float:
        """Where a value lies; 0.5 if there is only one."""
        if self.choices:
            last = len(self.choices) - 1
            return self.choices.index(value) / last if last else 0.5
        assert isinstance(value, int | float)
        low, high, own = (self._transformed(number) for number in (self.low, self.high, value))
        return (own - low) / (high - low) if high > low else 0.5

    def ticks(self) -> list[tuple[float, str]]:
        """(place, label) of the ends, of what lies in the middle of them, or of all choices."""
        if self.choices:
            return [(self.place(choice), format_value(choice)) for choice in self.choices]
        if self.low == self.high:
            return [(0.5, _label(self.low))]
        if all(float(end).is_integer() for end in (self.low, self.high)):
            return [(0.0, _label(self.low)), (1.0, _label(self.high))]
        middle = math.sqrt(self.low * self.high) if self.logarithmic else (self.low + self.high) / 2
        return [(0.0, _label(self.low)), (0.5, _label(middle)), (1.0, _label(self.high))]

    def _transformed(self, number: float) -> float:
        return math.log(number) if self.logarithmic else number


def numbers_among(values: Sequence[Scalar]) -> list[float]:
    """Those of the values that are finite numbers."""
    numbers = (value for value in values if isinstance(value, int | float) and not isinstance(value, bool))
    return [number for number in numbers if math.isfinite(number)]


def _label(number: float) -> str:
    return format_value(int(number) if float(number).is_integer() and abs(number) < 1e6 else float(number))
