"""Which runs others are ahead of in every objective, beyond chance. Pure functions over records.

An objective has an early value where one is known before the end: a metric of the curve has that of the part so far,
and seconds have those of training so far. A lead at a rung may be lost by the end. How large a lead has to be is
measured on the first complete runs: the margin of an objective is the lead at that rung which no more than `LOST_SHARE`
of their pairs have had and lost. As with one objective, a rung is used only where early ranks agree with final ones.

One run may be ahead by luck of its own, and with every complete run there is one more that may: it takes `NUM_AHEAD`.

Ranks often agree late only: on Acrobot and MountainCar hardly ever at a ninth of the budget, after a third in one of
three studies. So runs are compared until near their end, and rungs where ranks did not agree are measured again.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from tuner.features.objectives.pareto_front import Losses
from tuner.results.metric import SECONDS, STEP_TOLERANCE, Curve, Metric, Timing, make_metric
from tuner.results.number_format import format_number, join_words
from tuner.results.protocol import Pruning
from tuner.results.records import Objective, RunRecord
from tuner.results.statistics import spearman, spearman_bound

LOST_SHARE = 0.05
"""Of the pairs of complete runs, how many may have lost a lead of more than the margin."""

NUM_AHEAD = 3
"""Complete runs that have to be ahead of another one for that to be pruned."""

NUM_PARTS = 9
"""Parts of the budget; at the end of each from the first rung on runs are compared."""

MEASURED_EVERY = 4
"""Further complete runs, after which the rungs that are not used are measured again."""

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
        """Losses of a run at a fraction of the budget; None where one of the values is not known.

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
        """Losses of a complete run; None where one of the values is not known."""
        values = run.objectives(self.others)
        if values is None:
            return None
        further = zip(values[1:], self.others, strict=True)
        return (-values[0], *(_seconds_loss(value) if one.name == SECONDS else -value for value, one in further))

    def describe(self, margins: Sequence[float]) -> str:
        """How large margins are, for people: `final score 3.2 and seconds 12 %`."""
        names = [self.metric.name, *(one.name for one in self.others)]
        return join_words(
            f"{name} {math.expm1(margin):.0%}" if name == SECONDS else f"{name} {format_number(margin)}"
            for name, margin in zip(names, margins, strict=True)
        )


def _seconds_loss(seconds: float) -> float:
    return math.log(max(seconds, _LEAST_SECONDS))


@dataclass(frozen=True)
class RungMargins:
    """The margins at one rung.

    Attributes:
        point: The evaluation, counted from 1.
        fraction: Its share of the step budget.
        margins: How large a lead has to be in each objective, in the unit of its loss; empty: no run is pruned there.
    """

    point: int
    fraction: float
    margins: tuple[float, ...] = ()

    def is_hopeless(self, own: Losses, others: Iterable[Losses]) -> bool:
        """Whether enough others are ahead in every objective, by more than the margin."""
        if not self.margins:
            return False
        return sum(self._is_behind(own, other) for other in others) >= NUM_AHEAD

    def _is_behind(self, own: Losses, other: Losses) -> bool:
        return all(mine - theirs > margin for mine, theirs, margin in zip(own, other, self.margins, strict=True))


@dataclass(frozen=True)
class Margins:
    """The margins at the rungs of a study. They are kept, so that a continued study decides alike.

    Attributes:
        num_trials: Complete runs that there were when the last rungs were measured.
        rungs: In the order of the run.
    """

    num_trials: int
    rungs: tuple[RungMargins, ...]

    @property
    def used(self) -> tuple[RungMargins, ...]:
        """The rungs at which runs may be pruned."""
        return tuple(rung for rung in self.rungs if rung.margins)


def rung_points(pruning: Pruning, num_points: int) -> tuple[int, ...]:
    """The evaluations, counted from 1, at which runs are compared: the rungs, and all ninths behind the first one."""
    first = min(pruning.points(num_points), default=num_points)
    ninths = {round(part * num_points / NUM_PARTS) for part in range(1, NUM_PARTS)}
    return tuple(sorted({*pruning.points(num_points), *(point for point in ninths if first < point < num_points)}))


def measured(
    pruning: Pruning,
    num_points: int,
    known: Margins | None,
    early: Mapping[int, Sequence[Losses | None]],
    final: Sequence[Losses],
) -> Margins | None:
    """The margins by all complete runs so far; None: it is not the time to measure.

    A rung that is used keeps its margins: of the runs that have passed it since, those far behind are missing.

    Args:
        pruning: From how many runs on, and how far ranks have to agree.
        num_points: Evaluations of a run.
        known: What was measured before.
        early: By evaluation, the losses of each of the runs there; None: not known.
        final: Their losses in the end.
    """
    kept = {} if known is None else {rung.point: rung for rung in known.used}
    due = pruning.min_trials if known is None else known.num_trials + MEASURED_EVERY
    if len(final) < due or kept.keys() >= early.keys():
        return None
    rungs = (
        kept.get(point) or RungMargins(point, point / num_points, measure_margins(pruning, there, final))
        for point, there in early.items()
    )
    return Margins(len(final), tuple(rungs))


def measure_margins(pruning: Pruning, early: Sequence[Losses | None], final: Sequence[Losses]) -> tuple[float, ...]:
    """How large a lead at a rung has to be in each objective, by the first complete runs.

    Args:
        pruning: How far ranks have to agree.
        early: Losses of each of the runs at the rung; None: not known.
        final: Their losses in the end.

    Returns:
        None at all where a value is not known, or where ranks do not agree in one of the objectives.
    """
    known = [losses for losses in early if losses is not None]
    if len(known) < len(final):
        return ()
    columns = [*zip(zip(*known, strict=True), zip(*final, strict=True), strict=True)]
    if not all(_agree(pruning, there, end) for there, end in columns):
        return ()
    return tuple(lost_lead(there, end) for there, end in columns)


def _agree(pruning: Pruning, early: Sequence[float], final: Sequence[float]) -> bool:
    """As `tuner.results.protocol.decide_rungs` asks of the one score; never where all are alike."""
    agrees = spearman(early, final) >= pruning.min_rank_agreement
    return agrees and spearman_bound(early, final) >= pruning.min_rank_bound


def lost_lead(early: Sequence[float], final: Sequence[float]) -> float:
    """The lead which no more than `LOST_SHARE` of all pairs have had early and lost by the end.

    Args:
        early: [N] losses at a rung, N >= 2.
        final: [N] losses at the end.
    """
    lost = []
    for one, other in combinations(range(len(early)), 2):
        lead = early[one] - early[other]
        lost.append(abs(lead) if lead * (final[one] - final[other]) < 0.0 else 0.0)
    return sorted(lost)[math.ceil((1.0 - LOST_SHARE) * len(lost)) - 1]


def describe_margins(objectives: Objectives, known: Margins) -> str:
    """Sentences for the reader: where runs may be pruned, and what it takes."""
    if not known.used:
        return "No run can be pruned: at no rung do early values of all objectives agree in rank with final ones."
    on = [f"{rung.fraction:.0%} ({objectives.describe(rung.margins)})" for rung in known.used]
    return (
        f"A run is pruned at one of these parts of the budget if {NUM_AHEAD} complete runs are ahead of it in every "
        f"objective by more than the margin in brackets: {join_words(on)}. Of the pairs of complete runs by which a "
        f"margin was measured, {LOST_SHARE:.0%} have lost such a lead by the end."
    )
