"""Runs as evidence of the true scores of their configurations, each with its variance."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

import numpy as np

from tuner.results.metric import STEP_TOLERANCE, FloatArray, Metric, Timing
from tuner.results.records import SCREEN, RunRecord
from tuner.trial.messages import Outcome

_FEWEST = 4
"""Complete runs by which early scores are read: with fewer their line says nothing of what it leaves open."""
_FAR_OUT = 3.0
"""Interquartile ranges below the lower quartile, where Tukey (1977) calls a value far out."""
_FEWEST_BY_QUARTILES = 5
"""Scores by whose quartiles others may be called far out: three that happen to be alike would condemn all others."""


@dataclass(frozen=True)
class Score:
    """The evidence of a run about the true score of its configuration.

    Attributes:
        label: Of the configuration.
        value: The score, or what is expected of it.
        variance: Of what is not known of it, besides the noise of its seed; 0: the run came to its end.
    """

    label: str
    value: float
    variance: float = 0.0


class Scoring:
    """Scores runs, with the runs of the screening stage as the reference.

    Args:
        screened: The runs of the screening stage.
        metric: By which curves are scored.
    """

    def __init__(self, screened: Sequence[RunRecord], metric: Metric) -> None:
        self._metric = metric
        self._complete = [run for run in screened if run.complete and run.curve]
        known = [Score(run.label, run.score) for run in screened if run.score is not None]
        self._worst = min((one.value for one in moved_up(known)), default=None)
        self._lines: dict[float, _Line | None] = {}

    def __call__(self, run: RunRecord) -> Score | None:
        """The score of a run as evidence about its configuration; None: the run says nothing about it.

        One that was pruned says what is to be expected of it, and one behind screening that crashed to the end counts
        as the worst of screening, as `moved_up` has it.
        """
        if run.score is not None:
            return Score(run.label, run.score)
        if run.outcome is Outcome.PRUNED and run.curve:
            until = run.curve[-1][0]
            line = self._line(until)
            return None if line is None else Score(run.label, line.at(self._partial(run, until)), line.variance)
        crashed = run.outcome is not None and run.stage != SCREEN
        return Score(run.label, self._worst) if crashed and self._worst is not None else None

    def _line(self, until: float) -> "_Line | None":
        """Final scores of complete runs by those after a part of the budget; None: too few have one."""
        if until not in self._lines:
            whole = [run for run in self._complete if run.curve[0][0] <= until + STEP_TOLERANCE]
            early = np.array([self._partial(run, until) for run in whole])
            final = np.array([run.score for run in whole], dtype=np.float64)
            self._lines[until] = _Line.through(early, final) if len(whole) >= _FEWEST else None
        return self._lines[until]

    def _partial(self, run: RunRecord, until: float) -> float:
        return self._metric.partial(run.curve, until, Timing(run.times, run.time_limit))


@dataclass(frozen=True)
class _Line:
    """A least squares line.

    Attributes:
        centre: Mean of what it is drawn over.
        mean: Of what it stands for.
        slope: Of it.
        variance: Of what it leaves open.
    """

    centre: float
    mean: float
    slope: float
    variance: float

    @classmethod
    def through(cls, x: FloatArray, y: FloatArray) -> "_Line":
        """The line through points [N], N above 2."""
        away, spread = x - x.mean(), float(((x - x.mean()) ** 2).sum())
        slope = float((away * y).sum()) / spread if spread > 0.0 else 0.0
        left = y - y.mean() - slope * away
        return cls(float(x.mean()), float(y.mean()), slope, float((left**2).sum()) / (len(x) - 2))

    def at(self, x: float) -> float:
        """Its height."""
        return self.mean + self.slope * (x - self.centre)


def moved_up(screened: Sequence[Score], again: Collection[str] = ()) -> list[Score]:
    """Returns scores of screening of which those far below the others, such as what diverged, are raised to a bound.

    A model whose noise is normal would else know of nothing but them. Of few scores none is far out.

    Args:
        screened: One of each configuration.
        again: Labels of those that have further scores; theirs stay, as it is their spread that is to be known.
    """
    values = [one.value for one in screened if one.variance == 0.0]
    if len(values) < _FEWEST_BY_QUARTILES:
        return list(screened)
    lower, upper = np.percentile(values, [25.0, 75.0])
    floor = float(lower - _FAR_OUT * (upper - lower)) if upper > lower else -np.inf
    return [one if one.label in again else replace(one, value=max(one.value, floor)) for one in screened]
