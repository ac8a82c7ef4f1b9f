"""The score of a run that ended badly by its own doing, so that the sampler does not go there again."""

from collections.abc import Sequence
from dataclasses import replace

from tuner.results.metric import SECONDS, Metric, Timing, make_metric
from tuner.results.protocol import penalty, robust_worst
from tuner.results.records import Objective, RunRecord
from tuner.study.run_registry import Run, RunEnd
from tuner.trial.messages import Outcome


class Penalties:
    """Remembers the scores of a study, and gives a run that failed the worst there is in every objective.

    Of all stages: one in which nearly everything fails has no bad scores of its own to go by.

    Args:
        metric: The score.
        others: Objectives behind it.
        random_return: Return of a random policy, if it is known.
    """

    def __init__(self, metric: Metric, others: Sequence[Objective], random_return: float | None) -> None:
        self._metric = metric
        self._others = others
        self._random_return = random_return
        self._finished: list[float] = []
        self._told: list[float] = []
        self._rows: list[tuple[float, ...]] = []
        self._time_limit = 0.0

    def timing(self, run: Run) -> Timing:
        """When the points of a run were reached, and the limit, once a run has set it."""
        return replace(run.timing, limit=self._time_limit)

    def see(self, record: RunRecord) -> None:
        """Takes a run into account."""
        if record.score is not None:
            (self._finished if record.complete else self._told).append(record.score)
        self._time_limit = self._time_limit or record.time_limit
        values = record.objectives(self._others)
        if values is not None:
            self._rows.append(values[1:])

    def ending(self, run: Run, outcome: Outcome, reason: str, seconds: float) -> RunEnd:
        """How such a run ends: with the score of a random policy, or the worst seen if that is lower.

        Without a score if there is nothing to compare with.
        """
        timing = self.timing(run)
        points = run.points if timing.covers(run.points) or not self._metric.timed else ()
        seen = [*self._told, *(self._metric([point], timing) for point in points)]
        spent = replace(timing, seconds=((1.0, max((time for _, time in timing.seconds), default=seconds)),))
        # a policy that learns nothing is as good all along
        learnt_nothing = None if self._random_return is None else self._metric([(1.0, self._random_return)], spent)
        value = self._lowest(learnt_nothing, seen)
        return RunEnd(outcome, value, reason, seconds, () if value is None else self._worst_others(seconds, spent))

    def _lowest(self, learnt_nothing: float | None, seen: Sequence[float]) -> float | None:
        if not self._metric.timed:
            return penalty(learnt_nothing, self._finished, seen)
        known = [] if learnt_nothing is None else [learnt_nothing]
        return min([*known, *seen, *self._finished], default=None)  # times are our own measure: none is absurd

    def _worst_others(self, seconds: float, spent: Timing) -> tuple[float, ...]:
        """A run that failed early was quick: it gets the longest time seen, and so on."""
        worst = []
        for index, other in enumerate(self._others):
            column = [row[index] for row in self._rows]
            if other.name == SECONDS:
                column.append(seconds)
            elif self._random_return is not None:
                column.append(make_metric(other.name)([(1.0, self._random_return)], spent))
            sign = 1.0 if other.maximised else -1.0
            merits = [sign * value for value in column]
            is_time = other.name == SECONDS or make_metric(other.name).timed  # which is our own measure
            lowest = min(merits) if is_time and merits else robust_worst(merits, merits)
            worst.append(sign * (lowest or 0.0))
        return tuple(worst)
