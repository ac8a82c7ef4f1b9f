"""How the learning curve of a run becomes one score: higher is better, whatever the metric.

A curve is what a run reported: deterministic evaluations at fractions of its step budget, in order. `partial` scores
the part of a curve up to a rung in the same way for every run, so that pruners compare like with like.
"""

import math
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tuner.errors import UserError
from tuner.results.records import Objective
from tuner.support.names import did_you_mean

FloatArray = NDArray[np.float64]
Curve = Sequence[tuple[float, float]]
"""(fraction of the step budget, value) in order of the fraction."""

Rescale = Callable[[str, Curve], Curve]
"""The curve of a part of a run, given its name, as what is scored."""

STEP_TOLERANCE = 1e-9
"""Fractions closer than this are the same point of the grid."""


def missing_points(steps: Iterable[float], num_points: int, until: int | None = None) -> list[int]:
    """Points of the grid 1/num_points, 2/num_points, ... that a run has not reported, counted from 1.

    A point is there if something was reported behind the point before and up to this one: what a run reported while it
    had another budget lies between the points.

    Args:
        steps: Fractions of the budget at which there are reports.
        num_points: Of the grid.
        until: Last point that is looked for; None: the last one.
    """
    there = {math.ceil((step - STEP_TOLERANCE) * num_points) for step in steps}
    return [point for point in range(1, (num_points if until is None else until) + 1) if point not in there]


def as_it_is(part: str, curve: Curve) -> Curve:
    """Runs are scored by what they report."""
    del part
    return curve


@dataclass(frozen=True)
class Timing:
    """When the points of a curve were reached, and how long runs are.

    Attributes:
        seconds: (fraction of the step budget, seconds of training until then) of each point.
        limit: Seconds that count as the length of any run; 0: those of this one.
    """

    seconds: Curve = ()
    limit: float = 0.0

    def covers(self, curve: Curve) -> bool:
        """Whether the time of each point is known."""
        return {step for step, _ in curve} <= {step for step, _ in self.seconds}

    @property
    def length(self) -> float:
        """The limit, as it is or as this run sets it."""
        return self.limit or (whole_run(*zip(*self.seconds, strict=True)) if self.seconds else 0.0)

    def along(self, steps: FloatArray) -> FloatArray:
        """Seconds at these points, which do not fall: an attempt that repeats a part may have been quicker there.

        Raises:
            ValueError: One of them is not known.
        """
        known = dict(self.seconds)
        missing = [step for step in steps.tolist() if step not in known]
        if missing:
            raise ValueError(
                f"the report at {missing[0]:g} does not say after how many seconds of training it was made"
            )
        return np.maximum.accumulate(np.array([known[step] for step in steps.tolist()], dtype=np.float64))


UNTIMED = Timing()


class Metric(ABC):
    """A score of a whole learning curve.

    Attributes:
        name: The word that chooses it.
        label: Its name in tables.
        timed: Whether it goes by seconds.
    """

    name: str
    label: str
    timed: bool = False

    def __call__(self, curve: Curve, timing: Timing = UNTIMED) -> float:
        """The score of a run.

        Args:
            curve: Its reports.
            timing: Of the same points; only metrics that are `timed` look at it.

        Raises:
            ValueError: An empty curve, or one without its times where these are needed.
        """
        if not curve:
            raise ValueError("a run that reported nothing has no score")
        steps, values = np.asarray(curve, dtype=np.float64).T
        return float(self._timed_score(steps, values, timing))

    def partial(self, curve: Curve, until: float, timing: Timing = UNTIMED) -> float:
        """The score of the part of the curve up to a fraction of the budget, that point included."""
        return self([(step, value) for step, value in curve if step <= until + STEP_TOLERANCE], timing)

    @abstractmethod
    def _timed_score(self, steps: FloatArray, values: FloatArray, timing: Timing) -> float:
        """The score; both arrays [N], N >= 1."""


class UntimedMetric(Metric):
    """A score that the steps and values of a curve are enough for."""

    def _timed_score(self, steps: FloatArray, values: FloatArray, timing: Timing) -> float:
        del timing
        return self._score(steps, values)

    @abstractmethod
    def _score(self, steps: FloatArray, values: FloatArray) -> float:
        """The score; both arrays [N], N >= 1."""


class Final(UntimedMetric):
    """The mean of the last fifth of the evaluations (at least one)."""

    name = "final"
    label = "final score"

    def _score(self, steps: FloatArray, values: FloatArray) -> float:
        return float(values[-math.ceil(len(values) / 5) :].mean())


class AUC(UntimedMetric):
    """Area under the curve by the trapezoid rule, divided by its width: the mean height.

    It tells apart what a saturating environment makes equal in the end: who got there sooner.
    """

    name = "auc"
    label = "area under the curve"

    def _score(self, steps: FloatArray, values: FloatArray) -> float:
        width = steps[-1] - steps[0]
        return (
            float(np.sum(np.diff(steps) * (values[1:] + values[:-1]) / 2) / width) if width > 0.0 else float(values[-1])
        )


class Best(UntimedMetric):
    """The best evaluation of the run: optimistic by construction, for those who keep the best checkpoint."""

    name = "best"
    label = "best evaluation"

    def _score(self, steps: FloatArray, values: FloatArray) -> float:
        return float(values.max())


class Mixed(UntimedMetric):
    """Half the area under the curve, half the final score: soon and in the end."""

    name = "mixed"
    label = "half area under the curve, half final score"

    def __init__(self) -> None:
        self._auc, self._final = AUC(), Final()

    def _score(self, steps: FloatArray, values: FloatArray) -> float:
        return 0.5 * self._auc._score(steps, values) + 0.5 * self._final._score(steps, values)


class TargetMetric(Metric):
    """How soon a value is reached.

    Between evaluations the curve is taken as straight.

    Attributes:
        prefix: Of its name; the value follows.
        target: The value.
    """

    prefix: str

    def __init__(self, target: float) -> None:
        self.name = f"{self.prefix}{target:g}"
        self.target = target

    def is_reached_by(self, curve: Curve) -> bool:
        """Whether an evaluation comes to the value."""
        return any(value >= self.target for _, value in curve)

    @abstractmethod
    def cost_in_words(self, score: float) -> str:
        """The cost of a run that reached the value, in words."""

    def _reached_at(self, axis: FloatArray, values: FloatArray) -> float | None:
        """Where on an axis the curve first comes to the value; None: nowhere."""
        reached = np.flatnonzero(values >= self.target)
        if reached.size == 0:
            return None
        first = reached[0]
        if first == 0:
            return float(axis[0])
        share = (self.target - values[first - 1]) / (values[first] - values[first - 1])
        return float(axis[first - 1] + share * (axis[first] - axis[first - 1]))

    def _shortfall(self, values: FloatArray) -> float:
        """How far the best evaluation stays away, in multiples of the value, pressed into [0, 1)."""
        distance = (self.target - values.max()) / max(abs(self.target), 1.0)
        return float(distance / (1.0 + distance))


class StepsTo(TargetMetric, UntimedMetric):
    """How soon a value is reached: minus the fraction of the budget at which the curve first does, in [-1, 0).

    A curve that stays below scores under -1, down to -2: the further away its best evaluation is, the lower.
    """

    prefix = "steps_to_"

    def __init__(self, target: float) -> None:
        super().__init__(target)
        self.label = f"minus the share of the budget until {target:g}"

    def cost_in_words(self, score: float) -> str:
        """A share of the budget."""
        return f"{-score:.0%} of the budget"

    def _score(self, steps: FloatArray, values: FloatArray) -> float:
        reached_at = self._reached_at(steps, values)
        return -1.0 - self._shortfall(values) if reached_at is None else -reached_at


class SecondsTo(TargetMetric):
    """How cheaply a value is reached: minus the seconds of training until the curve first does.

    The seconds are those that a run reports with each evaluation: wall time of training alone, over all its attempts.
    (The share of the budget times the seconds of a whole run would not do: steps before learning begins take next to
    no time, a run's own seconds hold its start and its evaluations, and those of an attempt that was killed count
    what is done again.)

    A run that ends below the value is censored: all that is known is that it takes longer. As in algorithm
    configuration (PAR10, penalised average runtime) it has `PENALTY` times the time limit. Budgets are in steps, so
    the limit is what the first complete run of a study has taken, and stays that: with its own seconds for the limit a
    configuration would win that hardly learns, and so is through quickly; with the longest run so far, who ran earlier.
    A run that takes more than that penalty has its own seconds. Those that miss the value are ordered by up to
    `MARGIN` of that: the further away the best evaluation, the lower.
    """

    prefix = "seconds_to_"
    timed = True

    def __init__(self, target: float) -> None:
        super().__init__(target)
        self.label = f"minus the seconds of training until {target:g}"

    def cost_in_words(self, score: float) -> str:
        """Seconds of training."""
        return f"{-score:.3g} s of training"

    def _timed_score(self, steps: FloatArray, values: FloatArray, timing: Timing) -> float:
        seconds = timing.along(steps)
        reached_at = self._reached_at(seconds, values)
        if reached_at is not None:
            return -reached_at
        censored = max(PENALTY * (timing.limit or whole_run(steps, seconds)), float(seconds[-1]))
        return -censored * (1.0 + MARGIN * self._shortfall(values))


def whole_run(steps: Sequence[float] | FloatArray, seconds: Sequence[float] | FloatArray) -> float:
    """Seconds of the whole budget, where a run has come so far."""
    return float(seconds[-1] / steps[-1]) if steps[-1] > 0.0 else float(seconds[-1])


PENALTY = 10.0
"""A run that misses the value of `SecondsTo` has this many times the limit."""

MARGIN = 0.1
"""Of the penalty, what the worst of them has more."""

TARGETS: tuple[type[StepsTo] | type[SecondsTo], ...] = (StepsTo, SecondsTo)
METRICS: dict[str, type[Metric]] = {metric.name: metric for metric in (Mixed, Final, AUC, Best)}


def make_metric(name: str) -> Metric:
    """The metric of that name; `steps_to_475` is how soon 475 is reached, `seconds_to_475` after how much time.

    Raises:
        UserError: There is none.
    """
    for kind in TARGETS:
        if name.startswith(kind.prefix):
            try:
                target = float(name.removeprefix(kind.prefix))
            except ValueError:
                target = math.nan
            if not math.isfinite(target):
                raise UserError(f"study.metric={name} must end in a number, as {kind.prefix}475 does")
            return kind(target)
    if name not in METRICS:
        if name == SECONDS:
            raise UserError("study.metric: seconds cannot be the first objective; as in study.metric=[mixed,seconds]")
        listed = did_you_mean(name, [*METRICS, *(f"{kind.prefix}475" for kind in TARGETS), SECONDS])
        second = (
            f" ({SECONDS} only after another objective: study.metric=[mixed,{SECONDS}])"
            if re.search(rf"\b{SECONDS}\b", listed)
            else ""
        )
        raise UserError(f"study.metric={name} is unknown{listed}{second}")
    return METRICS[name]()


SECONDS = "seconds"
"""Name of the one objective that is no metric of the curve: how long a run takes."""


def make_others(names: Sequence[str], metric: str) -> tuple[Objective, ...]:
    """The objectives of these names behind the metric, in the same order.

    Raises:
        UserError: There is no such objective, or one is named twice.
    """
    for index, name in enumerate(names):
        if name in (metric, *names[:index]):
            raise UserError(f"study.metric names {name} twice; name each objective once")
    return tuple(
        Objective(SECONDS, "seconds of a run", maximised=False)
        if name == SECONDS
        else Objective(name, make_metric(name).label, maximised=True)
        for name in names
    )


def other_values(
    others: Sequence[Objective], curve: Curve, seconds: float, timing: Timing = UNTIMED
) -> tuple[float, ...]:
    """Values of a run with this time and this curve in each of these objectives."""
    return tuple(seconds if other.name == SECONDS else make_metric(other.name)(curve, timing) for other in others)
