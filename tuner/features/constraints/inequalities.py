"""Parses constraints such as `seconds<600`, and evaluates them."""

import math
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from tuner.errors import UserError
from tuner.results.metric import METRICS, SECONDS, Curve, StepsTo, make_metric
from tuner.results.number_format import format_number
from tuner.results.records import Scalar
from tuner.support.names import did_you_mean

KEY: Final = "study.constraints"
NUM_PARAMETERS: Final = "num_parameters"
"""As runs log it with each evaluation."""

LOGGED: Final = (
    NUM_PARAMETERS,
    "eval/mean_length",
    "train/env_steps_per_s",
    "train/episode_return",
    "train/episode_length",
)
"""Metrics that runs of all agents log; each agent logs more, all of them with a / in their names."""

_NOT_NEGATIVE: Final = (SECONDS, NUM_PARAMETERS, "eval/mean_length", "train/env_steps_per_s", "train/episode_length")
_STEPS_TO: Final = "minus a share of the budget, -1 at its end and never below -2; for half of it, write {name}>=-0.5"
_COMPARISONS: Final[Mapping[str, Callable[[float, float], bool]]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_GRAMMAR: Final = re.compile(r"([A-Za-z][\w/.-]*)\s*(<=|>=|<|>)\s*([+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)")
_AT_THE_LIMIT: Final = 1e-12
"""Excess of a value exactly at the limit of a strict constraint; Optuna would take 0 as feasible."""


@dataclass(frozen=True)
class Constraint:
    """One constraint.

    Attributes:
        name: Of the value.
        comparison: One of <, <=, > and >=.
        limit: Compared with the value.
    """

    name: str
    comparison: str
    limit: float

    def __str__(self) -> str:
        return f"{self.name}{self.comparison}{self.limit:g}"

    @property
    def is_upper(self) -> bool:
        """Whether values have to be low."""
        return self.comparison.startswith("<")

    def holds(self, value: float) -> bool:
        """Whether a value is on the right side."""
        return _COMPARISONS[self.comparison](value, self.limit)

    def excess(self, value: float) -> float:
        """How far a value is beyond the limit, as a share of that; 0 or less: it holds.

        A share, as samplers add up the excess of several constraints. Of a limit of 0 it is the distance.
        """
        beyond = (value - self.limit if self.is_upper else self.limit - value) / (abs(self.limit) or 1.0)
        return beyond if self.holds(value) or beyond > 0.0 else _AT_THE_LIMIT

    def of(self, seconds: float, curve: Curve, logged: Mapping[str, Scalar]) -> float | None:
        """The value of a run; None: it has none.

        Args:
            seconds: Wall time.
            curve: Its reports.
            logged: The last value of each metric that was kept.
        """
        if self.name == SECONDS:
            return seconds
        if is_of_curve(self.name):
            return make_metric(self.name)(curve) if curve else None
        value = logged.get(self.name)
        known = isinstance(value, int | float) and math.isfinite(value)
        return float(value) if known and value is not None else None

    def against(self, value: float) -> str:
        """`seconds 734 against < 600`."""
        return f"{self.name} {format_number(value)} against {self.comparison} {format_number(self.limit)}"


def is_of_curve(name: str) -> bool:
    """Whether a value is worked out of what a run has reported."""
    return name in METRICS or name.startswith(StepsTo.prefix)


def parse_constraint(text: str) -> Constraint:
    """The constraint that is typed so: NAME OP NUMBER.

    Raises:
        UserError: It is none, no run has a value of that name, or no run can hold it.
    """
    found = _GRAMMAR.fullmatch(text.strip()) if isinstance(text, str) else None
    if found is None or not math.isfinite(float(found[3])):
        raise UserError(
            f"{KEY}: {text!r} is no constraint; write NAME OP NUMBER, as in seconds<600 or num_parameters<1e5, where "
            "OP is <, <=, > or >="
        )
    constraint = Constraint(found[1], found[2], float(found[3]))
    _check_name(constraint.name, text)
    _check_limit(constraint, text)
    return constraint


def _check_name(name: str, text: str) -> None:
    if name.startswith(StepsTo.prefix):
        make_metric(name)
    elif "/" not in name and name not in (SECONDS, *LOGGED, *METRICS):
        known = did_you_mean(name, (SECONDS, *LOGGED, *METRICS, f"{StepsTo.prefix}475"))
        raise UserError(
            f"{KEY}: {text!r} names {name}, which no run has; a metric that runs log has a / in its name, as train/loss"
            f"{known}"
        )


def _check_limit(constraint: Constraint, text: str) -> None:
    """Refuses what every run holds, or none, by what is known of such values."""
    name, steps_to = constraint.name, constraint.name.startswith(StepsTo.prefix)
    if not steps_to and name not in _NOT_NEGATIVE:
        return
    ends = (-2.0, -math.ulp(0.0)) if steps_to else (0.0, math.inf)
    holds = [constraint.holds(value) for value in (ends[0], math.nextafter(ends[0], math.inf), ends[1])]
    known = f"{name} is {_STEPS_TO.format(name=name)}" if steps_to else f"{name} is never below 0"
    if all(holds):
        raise UserError(f"{KEY}: {text!r} always holds: {known}" + ("" if steps_to else "; leave it out"))
    if not any(holds):
        raise UserError(f"{KEY}: {text!r} cannot hold: {known}" + ("" if steps_to else "; give a limit above 0"))


def parse_constraints(texts: Sequence[str]) -> tuple[Constraint, ...]:
    """Those of a study.

    Raises:
        UserError: One of them is wrong, or two of them do not go together.
    """
    found: list[Constraint] = []
    for text in texts:
        one = parse_constraint(text)
        for other in found:
            if one.name == other.name:
                _check_pair(other, one)
        found.append(one)
    return tuple(found)


def _check_pair(first: Constraint, second: Constraint) -> None:
    if first.is_upper == second.is_upper:
        side = "above" if first.is_upper else "below"
        raise UserError(f"{KEY} has {first} and {second}: give {first.name} one limit {side}, the stricter one")
    upper, lower = (first, second) if first.is_upper else (second, first)
    if not (lower.limit < upper.limit or (lower.holds(upper.limit) and upper.holds(lower.limit))):
        raise UserError(f"{KEY}: no value of {first.name} holds both {first} and {second}")
