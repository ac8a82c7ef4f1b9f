"""Which runs others are ahead of in every objective, beyond chance. Pure functions over records.

An objective has an early value where one is known before the end: a metric of the curve has that of the part so far,
and seconds have those of training so far. A lead at a rung may be lost by the end. How large a lead has to be is
measured on the first complete runs: the margin of an objective is the lead at that rung which no more than `LOST_SHARE`
of their pairs have had and lost.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from tuner.features.objectives.pareto_front import Losses
from tuner.results.objective import SECONDS, STEP_TOLERANCE, Curve, Metric, Timing, make_metric
from tuner.results.protocol import Pruning
from tuner.results.records import Objective, RunRecord
from tuner.results.statistics import spearman, spearman_bound
from tuner.trial.messages import JsonDict

LOST_SHARE = 0.05
"""Of the pairs of complete runs, how many may have lost a lead of more than the margin."""

_LEAST_SECONDS = 1e-6
"""Below this two durations are the same; their logarithms need a number."""


@dataclass(frozen=True)
class Objectives:
    """The objectives of a study, the metric first, as losses: one number for each, lower is better.

    Seconds are compared by their logarithm, as what makes a run slower makes it so by a share.

    Attributes:
        metric: The first one.
        others: Those behind it.
        limit: Seconds that runs which miss a value are scored by; 0: none.
    """

    metric: Metric
    others: Sequence[Objective]
    limit: float = 0.0

    def early(self, curve: Curve, times: Curve, fraction: float) -> Losses | None:
        """What a run has come to at a fraction of the budget; None where one of the values is not known.

        Args:
            curve: Of the run, with at least the points up to there.
            times: (fraction of the budget, seconds of training until then) of these points.
            fraction: Of the rung.
        """
        curve = [(step, value) for step, value in curve if step <= fraction + STEP_TOLERANCE]
        timing, known = Timing(tuple(times), self.limit), dict(times)
        if not curve or not timing.covers(curve):
            return None
        seconds = _seconds_loss(known[curve[-1][0]])
        further = [seconds if one.name == SECONDS else -make_metric(one.name)(curve, timing) for one in self.others]
        return (-self.metric(curve, timing), *further)

    def final(self, run: RunRecord) -> Losses | None:
        """What a complete run has come to."""
        values = run.objectives(self.others)
        if values is None:
            return None
        further = zip(values[1:], self.others, strict=True)
        return (-values[0], *(_seconds_loss(value) if one.name == SECONDS else -value for value, one in further))


def _seconds_loss(seconds: float) -> float:
    return math.log(max(seconds, _LEAST_SECONDS))


@dataclass(frozen=True)
class RungMargins:
    """What is known about one rung.

    Attributes:
        point: The evaluation, counted from 1.
        fraction: Its share of the step budget.
        agreement: The lowest Spearman correlation of early and final values over the objectives; NaN: undefined.
        bound: What the lowest is at least, at 90 % confidence.
        margins: How large a lead has to be in each objective, in the unit of its loss.
        enabled: Whether runs may be pruned there.
    """

    point: int
    fraction: float
    agreement: float
    bound: float
    margins: tuple[float, ...]
    enabled: bool

    def is_behind(self, own: Losses, other: Losses) -> bool:
        """Whether the other is ahead in every objective, by more than the margin."""
        return all(mine - theirs > margin for mine, theirs, margin in zip(own, other, self.margins, strict=True))


def measure_margins(
    pruning: Pruning, num_points: int, objectives: Objectives, complete: Sequence[RunRecord]
) -> tuple[RungMargins, ...]:
    """What the complete runs tell about each rung.

    A rung is used where the ranks of early values agree with those of final ones in every objective, as
    `tuner.results.protocol.decide_rungs` asks of the one score.
    """
    final = [losses for run in complete if (losses := objectives.final(run)) is not None]
    found = []
    for point in pruning.points(num_points):
        fraction = point / num_points
        early = [losses for run in complete if (losses := objectives.early(run.curve, run.times, fraction)) is not None]
        if len(early) == len(final) >= 2:
            found.append(_measured(pruning, (point, fraction), early, final))
        else:  # somewhere a value is not known
            found.append(RungMargins(point, fraction, math.nan, math.nan, (), enabled=False))
    return tuple(found)


def _measured(
    pruning: Pruning, rung: tuple[int, float], early: Sequence[Losses], final: Sequence[Losses]
) -> RungMargins:
    columns = [*zip(zip(*early, strict=True), zip(*final, strict=True), strict=True)]
    agreement = float(np.min([spearman(there, end) for there, end in columns]))  # NaN if one of them is
    bound = float(np.min([spearman_bound(there, end) for there, end in columns]))
    margins = tuple(lost_lead(there, end) for there, end in columns)
    enabled = agreement >= pruning.min_rank_agreement and bound >= pruning.min_rank_bound
    return RungMargins(*rung, agreement, bound, margins, enabled)


def lost_lead(early: Sequence[float], final: Sequence[float], share: float = LOST_SHARE) -> float:
    """The lead which no more than a share of all pairs has had early and lost by the end.

    Args:
        early: [N] losses at a rung.
        final: [N] losses at the end.
        share: Of the pairs.
    """
    lost = [
        abs(early[one] - early[other]) * ((early[one] - early[other]) * (final[one] - final[other]) < 0.0)
        for one, other in combinations(range(len(early)), 2)
    ]
    return sorted(lost)[math.ceil((1.0 - share) * len(lost)) - 1]


def margins_to_json(rungs: Sequence[RungMargins]) -> list[JsonDict]:
    """As they are kept with the study; what is undefined is null."""
    return [
        {
            **vars(rung),
            "margins": list(rung.margins),
            **{name: None if math.isnan(value) else value for name, value in _shares(rung).items()},
        }
        for rung in rungs
    ]


def margins_from_json(entries: Sequence[JsonDict]) -> tuple[RungMargins, ...]:
    """Inverse of `margins_to_json`."""
    return tuple(
        RungMargins(
            **{
                **entry,
                "margins": tuple(entry["margins"]),
                **{name: math.nan if entry[name] is None else entry[name] for name in ("agreement", "bound")},
            }
        )
        for entry in entries
    )


def _shares(rung: RungMargins) -> dict[str, float]:
    return {"agreement": rung.agreement, "bound": rung.bound}


def describe_margins(rungs: Sequence[RungMargins], num_trials: int) -> str:
    """One sentence for the reader: where runs may be pruned, and why there."""
    if not rungs:
        return "No rung lies before the last evaluation, so no run can be pruned."
    told = []
    for rung in rungs:
        number = "undefined" if math.isnan(rung.agreement) else f"{rung.agreement:.2f}"
        number += "" if math.isnan(rung.bound) else f", at least {rung.bound:.2f}"
        told.append(f"{'on' if rung.enabled else 'off'} at {rung.fraction:.0%} of the budget ({number})")
    return (
        f"Pruning is {', '.join(told)}: a run ends there if another one is ahead in every objective by more than "
        f"{1.0 - LOST_SHARE:.0%} of pairs of the first {num_trials} complete runs have had and lost by the end. In "
        "brackets the lowest rank correlation over the objectives of values there with final ones, and what 90 % of "
        "bootstrap samples reach."
    )
