"""The result at each budget, and which longer budgets are worth their steps. Pure functions over summaries."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import median

from tuner.checking.step_counts import short_count
from tuner.results.findings import MIN_SCORES_FOR_INTERVAL, Estimate, Finding, estimate
from tuner.results.insights.differences import difference_of, scores_of
from tuner.results.number_format import join_words
from tuner.results.records import TEST, StudySummary
from tuner.results.verdict import verdict


@dataclass(frozen=True)
class BudgetPoint:
    """The result of the study of one budget.

    Attributes:
        steps: Environment steps of a run.
        study: Its name.
        label: Of the configuration that the study advises: its winner, or the default one where that is as good.
        is_default: Whether it is the default one.
        score: Of that configuration on test seeds.
        default: Of the default configuration on the same seeds; None: it has no score.
        seconds: Median duration of the configuration's test runs.
        command: That trains it.
        where: The part of a run that the command trains; empty: runs have no parts.
        by_seed: Its scores by seed.
        before: Steps of the budget that `gain` compares with; 0: of the shortest one.
        gain: Score of this budget minus that of the best shorter one; None: it is the shortest.
    """

    steps: int
    study: str
    label: str
    is_default: bool
    score: Estimate
    default: Estimate | None
    seconds: float
    command: str
    by_seed: dict[int, float]
    before: int = 0
    gain: Estimate | None = None
    where: str = ""

    @property
    def pays(self) -> bool:
        """Whether no shorter budget is as good, as far as the test seeds can show."""
        if self.gain is None:
            return True
        return self.gain.is_above_zero if self.gain.low is not None else self.gain.iqm > 0.0


def point_of(steps: int, summary: StudySummary) -> BudgetPoint | None:
    """Result of a study; None: nothing was tested to its end."""
    found = verdict(summary)
    keeps = found.finding is Finding.DEFAULT_AS_GOOD
    label = summary.default_label if keeps else summary.winner_label
    if label is None or not (by_seed := scores_of(summary, TEST, label)):
        return None
    scores, default = list(by_seed.values()), list(scores_of(summary, TEST, summary.default_label).values())
    return BudgetPoint(
        steps,
        summary.name,
        label,
        label == summary.default_label,
        estimate(scores),
        estimate(default) if default else None,
        median(run.seconds for run in summary.stage(TEST, label)),
        summary.default_command if keeps else summary.retrain_command,
        by_seed,
        where=summary.part_names[0] if summary.part_names else "",
    )


def compared_budgets(points: Sequence[BudgetPoint]) -> tuple[BudgetPoint, ...]:
    """The points, the lowest number of steps first, each compared with the best shorter one.

    The best shorter one is the last that pays: a budget pays by a gain that the seeds can show.
    """
    found: list[BudgetPoint] = []
    best: BudgetPoint | None = None
    for point in sorted(points, key=lambda one: one.steps):
        if best is not None:
            point = replace(point, before=best.steps, gain=difference_of(point.by_seed, best.by_seed))
        if point.pays:
            best = point
        found.append(point)
    return tuple(found)


def advice(points: Sequence[BudgetPoint]) -> str:
    """One sentence: which budgets are worth their steps.

    Args:
        points: As `compared_budgets` gives them, at least one.
    """
    paying = [point for point in points if point.pays]
    last, longer = paying[-1], [point for point in points if point.steps > paying[-1].steps]
    seeds = min(point.score.n for point in points)
    if any(point.gain is not None and point.gain.low is None for point in points):
        return (
            f"The score is highest with {max(points, key=lambda one: one.score.iqm).steps:,} steps, but this may be "
            f"chance: an interval needs at least {MIN_SCORES_FOR_INTERVAL} test seeds."
        )
    if longer:
        names = join_words(f"{point.steps:,}" for point in longer)
        return f"Take {last.steps:,} steps: runs of {names} steps bring no gain that {seeds} test seeds can show."
    if len(points) > 1 and len(paying) == len(points):
        return "Each larger budget brings a higher score: take the largest one that you can afford."
    return f"Take {last.steps:,} steps, if you can afford them: no shorter run has as high a score."


def called(point: BudgetPoint) -> str:
    """The configuration in a sentence: trial 3, the default."""
    return "the default" if point.is_default else point.label


def gain_words(point: BudgetPoint) -> str:
    """The gain over a shorter budget: `+120 [+80, +150] over 10k`; of the shortest one nothing."""
    return "" if point.gain is None else f"{point.gain.signed} over {short_count(point.before)}"
