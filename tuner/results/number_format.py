"""How numbers, parameters and durations are written for people: shared by the verdict, the tables and the page."""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from tuner.errors import UserError
from tuner.results.records import Scalar


def format_number(value: float) -> str:
    """A score in at most three significant digits: 498, -97.4, 0.0312, 12,300."""
    if not math.isfinite(value):
        return str(value)
    if value == 0:
        return "0"
    if abs(value) < 0.001:
        return f"{value:.2e}"
    rounded = float(f"{value:.{_DIGITS}g}")
    return f"{rounded:,.0f}" if abs(rounded) >= 1000 else f"{rounded:g}"


_DIGITS: Final = 3


def format_mean(value: float) -> str:
    """As `format_number`, but 10.0 instead of 10, as it is a mean."""
    text = format_number(value)
    is_short = text.lstrip("-").isdigit() and abs(value) < 10 ** (_DIGITS - 1)
    return f"{text}.0" if is_short else text


def format_signed(value: float) -> str:
    """As `format_number`, with the sign always written."""
    text = format_number(value)
    return text if text.startswith("-") or value == 0 else f"+{text}"


def override_words(values: Mapping[str, Scalar]) -> tuple[str, ...]:
    """The values of a job of a sweep, as trackers show them: `agent=dqn`."""
    return tuple(f"{path}={format_value(value)}" for path, value in values.items())


def format_alike(values: Sequence[float], signed: bool = False) -> list[str]:
    """Numbers of one measurement, as a mean and the ends of its interval, with the same decimals.

    Their span has two significant digits, as further ones are chance: 9.30, 9.27 and 9.40; -1,140 and -1,270. The
    largest of them has three at most.

    Args:
        values: At least one.
        signed: Whether a plus is written, too.
    """
    span = max(values) - min(values)
    if not _LEAST_SPAN < span < math.inf:
        return [format_signed(value) if signed else format_number(value) for value in values]
    largest = max(abs(value) for value in values)
    decimals = min(1 - math.floor(math.log10(span)), _DIGITS - 1 - math.floor(math.log10(largest)))
    return [_with_decimals(value, decimals, "+" if signed else "") for value in values]


_LEAST_SPAN = 1e-4


def _with_decimals(value: float, decimals: int, sign: str) -> str:
    rounded = round(value, decimals)
    shown = max(0, decimals)
    return f"{rounded:{sign},.{shown}f}" if rounded else f"{0:.{shown}f}"  # without a sign


def format_value(value: Scalar) -> str:
    """A parameter value: a float in three significant digits, all else as it is typed on the command line.

    Just below 1, where discount factors and decay rates live, the distance to 1 is what counts and keeps one digit at
    least: 0.997, 0.9998.
    """
    if isinstance(value, bool):
        return str(value).lower()
    if value is None:
        return "null"
    if not isinstance(value, float):
        return str(value)
    if 0.9 <= value < 1:
        return f"{value:.{max(_DIGITS, -math.floor(math.log10(1 - value)))}f}".rstrip("0")
    return f"{value:.3g}"


def format_seconds(seconds: float) -> str:
    """A duration in its two largest units: 12 s, 3 min 20 s, 2 h 05 min."""
    whole = max(0, round(seconds))
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"


_UNIT_S = {"s": 1.0, "min": 60.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(s|min|m|h|d)\s*")


def seconds_of(name: str, value: float | str) -> float:
    """The seconds that a duration names: 90, "45s", "90min", "2h", "1h30m", "1.5 d".

    Args:
        name: Of the setting, for the complaint.
        value: The duration; a number means seconds.

    Raises:
        UserError: It is none.
    """
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    text = str(value)
    parts = _DURATION.findall(text)
    if not parts or _DURATION.sub("", text).strip():
        raise UserError(f"{name}={value} is no duration: write 45s, 90min, 2h, 1h30m, or a number of seconds")
    return sum(float(number) * _UNIT_S[unit] for number, unit in parts)


def in_two_lines(path: str) -> str:
    """A configuration path as the heading of a narrow column: the group above the setting."""
    group, dot, name = path.rpartition(".")
    return f"{group}{dot}\n{name}" if dot else name


def describe_params(
    params: Mapping[str, Scalar], importances: Mapping[str, float] | None = None, limit: int = 4
) -> str:
    """The most important parameters in one line, as they are typed: `optimizer.learning_rate=0.0006, agent.gamma=0.98`.

    Args:
        params: configuration path -> value.
        importances: configuration path -> importance; decides the order. Without it: the order given.
        limit: how many are named before the dots.
    """
    weights = importances or {}
    ordered = sorted(params, key=lambda path: -weights.get(path, 0.0))
    texts = [f"{path}={format_value(params[path])}" for path in ordered[:limit]]
    return ", ".join(texts) + (", ..." if len(ordered) > limit else "")


def describe_subject(agent: str, env_id: str) -> str:
    """`dqn on CartPole-v1`; of a function, which has no environment, its name alone."""
    return f"{agent} on {env_id}" if env_id else agent


def join_words(words: Iterable[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    items = list(words)
    return " and ".join(filter(None, [", ".join(items[:-1]), *items[-1:]]))


def counted(number: int, noun: str) -> str:
    """`1 seed`, `5 seeds`."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def describe_part(node: Mapping[str, Any]) -> str:
    """A sampler or pruner by its class and its arguments: `TPESampler (multivariate true, ...)`.

    Empty for one that does nothing.
    """
    kind = str(node["_target_"]).rpartition(".")[2]
    if kind == "NopPruner":
        return ""
    told = [f"{key} {format_value(value)}" for key, value in node.items() if not key.startswith("_")]
    return f"{kind} ({', '.join(told)})" if told else kind
