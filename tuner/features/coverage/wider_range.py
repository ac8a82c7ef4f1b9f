"""The override that widens a search range beyond one of its ends."""

from collections.abc import Mapping
from typing import Any, Final

from tuner.study.space.coordinates import one_minus
from tuner.study.space.parameter_text import ONE_MINUS, POWER_OF_TWO

_FACTOR: Final = 3.0
"""A logarithmic range grows by such a factor: half a decade."""
_FACTOR_TO_ONE: Final = 2.0
"""The distance to 1 grows or shrinks by such a factor: that is one octave of the horizon of a discount."""
_SHARE: Final = 0.5
"""Any other range grows by such a share of its width."""


def widened(described: Mapping[str, Any], edge: str) -> str:
    """The override that moves an edge outwards; empty where there is nothing beyond it.

    A range that does not go below 0 is kept from it, one that does not go above 1 as well: shares, probabilities and
    coefficients end there. A range that does not reach such a value stops short of it, as it may be none that can be.

    Args:
        described: A parameter as `Parameter.describe` gives it.
        edge: "low" or "high", of its values as they are typed.
    """
    value = _beyond(described, edge)
    return "" if value is None else f"space.{described['path']}.{edge}={value:.12g}"


def _beyond(described: Mapping[str, Any], edge: str) -> float | None:
    """The value at which the range is to end; None where it ends already at the last one that there is."""
    low, high = float(described["low"]), float(described["high"])
    sign = 1.0 if edge == "high" else -1.0
    if described["scale"] == ONE_MINUS:
        distance = low / _FACTOR_TO_ONE if edge == "high" else high * _FACTOR_TO_ONE
        return one_minus(distance) if distance < 1.0 else None
    end = high if edge == "high" else low
    if described["scale"] == POWER_OF_TWO:
        moved = 2.0 ** (end + sign)
        is_share = bool(described["of"])
        return None if (moved > 1.0 and is_share) or (moved < 1.0 and not is_share) else moved
    if described["log"]:
        moved = float(f"{end * _FACTOR**sign:.1g}")
    else:
        moved = end + sign * _whole_steps(_SHARE * (high - low), described)
    if described["integer"]:
        moved = float(round(moved))
    if described["integer"]:
        moved = max(moved, min(low, 1.0)) if low >= 0.0 else moved
    elif low >= 0.0 and not described["log"]:
        moved = max(moved, low / 2.0)
    if high <= 1.0 and not described["integer"]:
        moved = min(moved, (high + 1.0) / 2.0)
    return None if moved == end or (described["log"] and moved <= 0.0) else moved


def _whole_steps(width: float, described: Mapping[str, Any]) -> float:
    """A width as a whole number of steps, one at least, where the range has steps."""
    step = described["step"]
    return width if not step else max(1, round(width / step)) * float(step)
