"""How the learning curve of a run becomes one score: higher is better, whatever the metric.

A curve is what a run reported: deterministic evaluations at fractions of its step budget, in order. `partial` scores
the part of a curve up to a rung in the same way for every run, so that pruners compare like with like.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from tuner.errors import UserError
from tuner.results.records import Objective
from tuner.support.names import did_you_mean

FloatArray = NDArray[np.float64]
Curve = Sequence[tuple[float, float]]
"""(fraction of the step budget, value) in order of the fraction."""

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


class Metric(ABC):
    """A score of a whole learning curve.

    Attributes:
        name: What is typed to choose it.
        label: What tables call it.
    """

    name: str
    label: str

    def __call__(self, curve: Curve) -> float:
        """The score of a run.

        Raises:
            ValueError: An empty curve.
        """
        if not curve:
            raise ValueError("a run that reported nothing has no score")
        steps, values = np.asarray(curve, dtype=np.float64).T
        return float(self._score(steps, values))

    def partial(self, curve: Curve, until: float) -> float:
        """The score of the part of the curve up to a fraction of the budget, that point included."""
        return self([(step, value) for step, value in curve if step <= until + STEP_TOLERANCE])

    @abstractmethod
    def _score(self, steps: FloatArray, values: FloatArray) -> float:
        """The score; both arrays [N], N >= 1."""


class Final(Metric):
    """The mean of the last fifth of the evaluations (at least one)."""

    name = "final"
    label = "final score"

    def _score(self, steps: FloatArray, values: FloatArray) -> float:
        return float(values[-math.ceil(len(values) / 5) :].mean())


class AUC(Metric):
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


class Best(Metric):
    """The best evaluation of the run: optimistic by construction, for those who keep the best checkpoint."""

    name = "best"
    label = "best evaluation"

    def _score(self, steps: FloatArray, values: FloatArray) -> float:
        return float(values.max())


class Mixed(Metric):
    """Half the area under the curve, half the final score: soon and in the end."""

    name = "mixed"
    label = "half area under the curve, half final score"

    def __init__(self) -> None:
        self._auc, self._final = AUC(), Final()

    def _score(self, steps: FloatArray, values: FloatArray) -> float:
        return 0.5 * self._auc._score(steps, values) + 0.5 * self._final._score(steps, values)


class StepsTo(Metric):
    """How soon a value is reached: minus the fraction of the budget at which the curve first does, in [-1, 0).

    Between evaluations the curve is taken as straight. A curve that stays below scores under -1, down to -2: the
    further away its best evaluation is, in multiples of the value, the lower.
    """

    prefix = "steps_to_"

    def __init__(self, threshold: float) -> None:
        self.name = f"{self.prefix}{threshold:g}"
        self.label = f"minus the share of the budget until {threshold:g}"
        self._threshold = threshold

    def _score(self, steps: FloatArray, values: FloatArray) -> float:
        reached = np.flatnonzero(values >= self._threshold)
        if reached.size == 0:
            distance = (self._threshold - values.max()) / max(abs(self._threshold), 1.0)
            return float(-1.0 - distance / (1.0 + distance))
        first = reached[0]
        if first == 0:
            return float(-steps[0])
        rise = values[first] - values[first - 1]
        share = (self._threshold - values[first - 1]) / rise
        return float(-(steps[first - 1] + share * (steps[first] - steps[first - 1])))


METRICS: dict[str, type[Metric]] = {metric.name: metric for metric in (Mixed, Final, AUC, Best)}


def make_metric(name: str) -> Metric:
    """The metric of that name; `steps_to_475` is how soon 475 is reached.

    Raises:
        UserError: There is none.
    """
    if name.startswith(StepsTo.prefix):
        try:
            threshold = float(name.removeprefix(StepsTo.prefix))
        except ValueError:
            threshold = math.nan
        if not math.isfinite(threshold):
            raise UserError(f"study.metric={name} must end in a number, as steps_to_475 does")
        return StepsTo(threshold)
    if name not in METRICS:
        if name == SECONDS:
            raise UserError("study.metric: seconds cannot be the first objective; as in study.metric=[mixed,seconds]")
        listed = did_you_mean(name, [*METRICS, "steps_to_475", SECONDS])
        second = f" ({SECONDS} behind another one only: study.metric=[mixed,{SECONDS}])" if SECONDS in listed else ""
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
            raise UserError(f"study.metric names {name} twice; each objective is to be another one")
    return tuple(
        Objective(SECONDS, "seconds of a run", maximised=False)
        if name == SECONDS
        else Objective(name, make_metric(name).label, maximised=True)
        for name in names
    )


def other_values(others: Sequence[Objective], curve: Curve, seconds: float) -> tuple[float, ...]:
    """What a run that took so long and left this curve has of each of these objectives."""
    return tuple(seconds if other.name == SECONDS else make_metric(other.name)(curve) for other in others)
