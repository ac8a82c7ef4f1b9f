"""A parameter in the words of who typed it, from the data that `Parameter.describe` has left with a study."""

from collections.abc import Mapping
from typing import Any, Final

from tuner.results.number_format import format_value, join_words
from tuner.study.space.coordinates import OneMinus, PowerOfTwo, one_minus

ONE_MINUS: Final = OneMinus.__name__
POWER_OF_TWO: Final = PowerOfTwo.__name__


def describe_values(described: Mapping[str, Any]) -> str:
    """The values a parameter may have, and how they are spread: `0.9 .. 0.9999 (log of 1 - x)`, `relu, tanh`."""
    if "labels" in described:
        words = ", ".join(format_value(label) for label in described["labels"])
    else:
        low, high = sorted(value_at(described, described[end]) for end in ("low", "high"))
        words = f"{format_value(low)} .. {format_value(high)}"
        spread = _spread(described)
        words += f" ({spread})" if spread else ""
    if described.get("of"):
        words += f" of {' * '.join(described['of'])}"
    if described.get("at_most"):
        words += f", at most {' * '.join(described['at_most'])}"
    if "prior" in described:
        words += f", expected near {format_value(value_at(described, described['prior']))}"
    conditions = [f"{path} is {join_words(map(str, values))}" for path, values in described.get("when", {}).items()]
    return words + (f", where {join_words(conditions)}" if conditions else "")


def axis_kind(described: Mapping[str, Any]) -> str:
    """How a figure spreads the values; see `StudySummary.scales`."""
    if "labels" in described:
        return "category"
    if described["scale"] == ONE_MINUS:
        return "one_minus"
    return "log" if described["log"] or described["scale"] == POWER_OF_TWO else "linear"


def value_at(described: Mapping[str, Any], drawn: Any) -> Any:
    """A point of the coordinate in the parameter's own units: a number, or the label of a choice."""
    if "labels" in described:
        return drawn
    if described["scale"] == ONE_MINUS:
        return one_minus(drawn)
    return 2 ** int(drawn) if described["scale"] == POWER_OF_TWO else drawn


def _spread(described: Mapping[str, Any]) -> str:
    if described["scale"] == ONE_MINUS:
        return "log of 1 - x"
    if described["scale"] == POWER_OF_TWO:
        return "powers of 2"
    if described["log"]:
        return "log"
    return "" if described["step"] is None else f"steps of {format_value(described['step'])}"
