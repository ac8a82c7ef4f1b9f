"""How a hyperparameter is walked through: the coordinate a sampler sees, and the way from there to its value.

Ranges stay static, because a range that depends on another parameter silently leaves TPE's joint space. What would need
such a range is reparametrised instead: 1 - gamma on a log scale, powers of two by their exponent, a batch as a share of
the rollout.
"""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from tuner.config.paths import get_path
from tuner.results.records import Scalar


@dataclass(frozen=True)
class Bounds:
    """A numeric coordinate: from `low` to `high`, both included."""

    low: float
    high: float
    log: bool = False
    step: float | None = None
    integer: bool = False


@dataclass(frozen=True)
class Labels:
    """A categorical coordinate: one of these, without an order."""

    labels: tuple[Scalar, ...]


class Coordinate(Protocol):
    """One way of walking through the values of a hyperparameter."""

    @property
    def domain(self) -> Bounds | Labels:
        """Bounds or labels that a sampler draws from."""

    def name(self, quantity: str) -> str:
        """The name of the drawn coordinate, for the quantity of that name: `1-agent.gamma`."""

    def to_value(self, drawn: Scalar) -> object:
        """The value of the quantity at this point of the domain."""

    def to_drawn(self, value: object) -> Scalar:
        """The point of the domain at which the quantity has this value; ValueError if there is none."""


def as_number(value: object) -> float:
    """The value, if it is a number; ValueError otherwise."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"{value!r} is not a number")
    return value


def following(value: object, of: Sequence[str], at_most: Sequence[str], config: Mapping[str, Any]) -> object:
    """The final value of a parameter that is a share of settings, or may not exceed them.

    Args:
        value: At the drawn point of its coordinate.
        of: Config paths whose product it is a share of; the result is then a whole number >= 1.
        at_most: Config paths whose product it may not exceed.
        config: Holds both; KeyError if it does not.
    """
    if at_most:
        value = min(as_number(value), product_of(config, at_most))
    return max(1, round(as_number(value) * product_of(config, of))) if of else value


def product_of(config: Mapping[str, Any], paths: Sequence[str]) -> float:
    """The product of the numbers at these config paths; KeyError if there is none at one of them."""
    return math.prod(as_number(get_path(config, path)) for path in paths)


def _inside(value: float, interval: Bounds) -> float:
    """The value, moved onto a bound that it misses by a rounding error; ValueError if it is outside."""
    nearest = min(max(value, interval.low), interval.high)
    if not math.isclose(value, nearest, rel_tol=1e-9):
        raise ValueError(f"{value:g} is outside {interval.low:g} to {interval.high:g}")
    return nearest


@dataclass(frozen=True)
class Plain:
    """The value itself, on a linear or logarithmic scale."""

    interval: Bounds

    @property
    def domain(self) -> Bounds:
        """The range of values."""
        return self.interval

    def name(self, quantity: str) -> str:
        """The quantity's own name."""
        return quantity

    def to_value(self, drawn: Scalar) -> object:
        """The same number, whole where the range is."""
        return int(as_number(drawn)) if self.interval.integer else float(as_number(drawn))

    def to_drawn(self, value: object) -> Scalar:
        """The same number."""
        number = _inside(as_number(value), self.interval)
        if self.interval.step is not None:
            steps = (number - self.interval.low) / self.interval.step
            if not math.isclose(steps, round(steps), abs_tol=1e-9):
                raise ValueError(f"{number:g} is not on the grid {self.interval.low:g}, +{self.interval.step:g}, ...")
        if self.interval.integer and number != int(number):
            raise ValueError(f"{number:g} is not a whole number")
        return int(number) if self.interval.integer else float(number)


@dataclass(frozen=True)
class OneMinus:
    """1 - value on a log scale: for discounts and traces, where 0.99 and 0.999 are a world apart."""

    low: float
    high: float

    @property
    def domain(self) -> Bounds:
        """The range of 1 - value."""
        return Bounds(one_minus(self.high), one_minus(self.low), log=True)

    def name(self, quantity: str) -> str:
        """`1-agent.gamma`."""
        return f"1-{quantity}"

    def to_value(self, drawn: Scalar) -> object:
        """One minus what was drawn."""
        return one_minus(as_number(drawn))

    def to_drawn(self, value: object) -> Scalar:
        """One minus the value."""
        return _inside(one_minus(as_number(value)), self.domain)


def one_minus(number: float) -> float:
    """1 - number without the last digits that subtraction invents: 0.01 for 0.99, not 0.010000000000000009."""
    return float(f"{1.0 - number:.12g}")


@dataclass(frozen=True)
class PowerOfTwo:
    """2 to a whole exponent, the exponent being drawn."""

    low_exponent: int
    high_exponent: int

    @property
    def domain(self) -> Bounds:
        """The range of exponents."""
        return Bounds(self.low_exponent, self.high_exponent, integer=True)

    def name(self, quantity: str) -> str:
        """`log2(buffer.batch_size)`."""
        return f"log2({quantity})"

    def to_value(self, drawn: Scalar) -> object:
        """Two to what was drawn: an int, or a float below 1."""
        exponent = int(as_number(drawn))
        return 2**exponent if exponent >= 0 else 2.0**exponent

    def to_drawn(self, value: object) -> Scalar:
        """The exponent of the value."""
        exponent = exponent_of_two(as_number(value))
        if exponent is None:
            raise ValueError(f"{value} is not a power of two")
        return int(_inside(exponent, self.domain))


def exponent_of_two(number: float) -> int | None:
    """The exponent e with 2**e == number, or None if there is no whole one."""
    if not (number > 0.0 and math.isfinite(number)):
        return None
    mantissa, exponent = math.frexp(number)
    return exponent - 1 if mantissa == 0.5 else None


@dataclass(frozen=True)
class Choices:
    """One of a few values; lists and mappings travel under their JSON text."""

    values: tuple[object, ...]

    @property
    def domain(self) -> Labels:
        """The labels of the values."""
        return Labels(tuple(label_of(value) for value in self.values))

    def name(self, quantity: str) -> str:
        """The quantity's own name."""
        return quantity

    def to_value(self, drawn: Scalar) -> object:
        """The value under this label."""
        return self.values[self._index(drawn)]

    def to_drawn(self, value: object) -> Scalar:
        """The label of this value."""
        return label_of(self.values[self._index(label_of(value))])

    def _index(self, label: Scalar) -> int:
        for index, value in enumerate(self.values):
            own = label_of(value)
            if own == label and isinstance(own, bool) == isinstance(label, bool):
                return index
        raise ValueError(f"{label!r} is none of {', '.join(map(repr, self.domain.labels))}")


def label_of(value: object) -> Scalar:
    """The form of a choice's value in a storage: itself if it is a scalar, else its JSON text."""
    return value if value is None or isinstance(value, bool | int | float | str) else json.dumps(value, sort_keys=True)


def taken_for_the_same(values: Sequence[object]) -> tuple[object, object] | None:
    """Returns the first two of some values that a storage does not tell apart, such as 1, 1.0 and True; None: none."""
    labels = [label_of(value) for value in values]
    for index, label in enumerate(labels):
        if label in labels[:index]:
            return values[labels.index(label)], values[index]
    return None
