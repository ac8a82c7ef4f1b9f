"""What a run is told with that ended badly by its own doing, so that the sampler does not go there again."""

from collections.abc import Sequence

from tuner.results.objective import SECONDS, Metric, make_metric
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
        random_return: What a random policy is worth, if that is known.
    """

    def __init__(self, metric: Metric, others: Sequence[Objective], random_return: float | None) -> None:
        self._metric = metric
        self._others = others
        self._random_return = random_return
        self._finished: list[float] = []
        self._told: list[float] = []
        self._rows: list[tuple[float, ...]] = []

    def see(self, record: RunRecord) -> None:
        """Takes a run into account."""
        if record.score is not None:
            (self._finished if record.complete else self._told).append(record.score)
        values = record.objectives(self._others)
        if values is not None:
            self._rows.append(values[1:])

    def ending(self, run: Run, outcome: Outcome, reason: str, seconds: float) -> RunEnd:
        """How such a run ends: with the score of a random policy, or the worst seen if that is lower.

        Without a score if there is nothing to compare with.
        """
        seen = [*self._told, *(self._metric([point]) for point in run.points)]
        # a policy that learns nothing is as good all along
        learnt_nothing = None if self._random_return is None else self._metric([(1.0, self._random_return)])
        value = penalty(learnt_nothing, self._finished, seen)
        return RunEnd(outcome, value, reason, seconds, () if value is None else self._worst_others(seconds))

    def _worst_others(self, seconds: float) -> tuple[float, ...]:
        """A run that failed early was quick: it gets the longest time seen, and so on."""
        worst = []
        for index, other in enumerate(self._others):
            column = [row[index] for row in self._rows]
            if other.name == SECONDS:
                column.append(seconds)
            elif self._random_return is not None:
                column.append(make_metric(other.name)([(1.0, self._random_return)]))
            sign = 1.0 if other.maximised else -1.0
            merits = [sign * value for value in column]
            lowest = min(merits) if other.name == SECONDS else robust_worst(merits, merits)  # times are our own measure
            worst.append(sign * (lowest or 0.0))
        return tuple(worst)
