"""Feasible configurations: their values over all runs, against the constraints of a study.

A value such as the seconds of a run is noisy. In screening a configuration has one run, and that decides. Over several
seeds the mean decides, in race, confirmation and test: with two or three seeds an interval would be several times as
wide as the noise, and refuse nearly everything near a limit. With `study.over_seeds=worst` it has to hold on each seed.
How sure it is says the interval over test seeds, which the verdict gives.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean

from tuner.features.constraints.inequalities import KEY, Constraint
from tuner.results.findings import Estimate, estimate
from tuner.results.number_format import counted, join_words
from tuner.results.records import RunRecord

_OVER_SEEDS: dict[str, Callable[[Constraint, Sequence[float]], float]] = {
    "mean": lambda constraint, values: fmean(values),
    "worst": lambda constraint, values: max(values) if constraint.is_upper else min(values),
}


@dataclass(frozen=True)
class Feasibility:
    """The constraints of a study, and how values over seeds become one.

    Attributes:
        constraints: All of them have to hold.
        over_seeds: As of the study: mean or worst.
    """

    constraints: tuple[Constraint, ...]
    over_seeds: str = "mean"

    def values(self, runs: Iterable[RunRecord]) -> list[float | None]:
        """The value of a configuration for each constraint, over those of its runs that are complete."""
        complete = [run for run in runs if run.complete]
        found = []
        for constraint in self.constraints:
            known = [value for run in complete if (value := value_of(constraint, run)) is not None]
            found.append(_OVER_SEEDS[self.over_seeds](constraint, known) if known else None)
        return found

    def violated(self, runs: Iterable[RunRecord]) -> list[str]:
        """The constraints that a configuration violates, in words; an unknown value violates its constraint."""
        pairs = zip(self.constraints, self.values(runs), strict=True)
        return [
            f"{one.name} unknown against {one.comparison} {one.limit:g}" if value is None else one.against(value)
            for one, value in pairs
            if value is None or not one.holds(value)
        ]

    def excess(self, runs: Iterable[RunRecord]) -> tuple[int, float]:
        """How far a configuration is from being feasible: how many values are unknown, and the sum of shares beyond."""
        pairs = [*zip(self.constraints, self.values(runs), strict=True)]
        beyond = (max(0.0, one.excess(value)) for one, value in pairs if value is not None)
        return sum(value is None for _, value in pairs), sum(beyond)

    def none_feasible(self, candidates: Sequence[RunRecord], runs: Sequence[RunRecord]) -> str:
        """That none of these configurations is feasible, and which one is nearest; the first of equals."""
        own = {one.label: [run for run in runs if run.label == one.label] for one in candidates}
        nearest = min(own, key=lambda label: self.excess(own[label]))
        number = len(candidates)
        return (
            f"{f'None of {number} configurations' if number > 1 else 'The only configuration'} "
            f"{'is' if number > 1 else 'is not'} feasible ({', '.join(map(str, self.constraints))}); the smallest "
            f"violation is that of {nearest}: {join_words(self.violated(own[nearest]))}"
        )

    def unmoved(self, candidates: Sequence[RunRecord], runs: Sequence[RunRecord]) -> list[str]:
        """Names of violated values that are the same for all of several configurations, and so for further ones."""
        own = [[run for run in runs if run.label == one.label] for one in candidates]
        columns = zip(*map(self.values, own), strict=True)
        return [
            constraint.name
            for constraint, (first, *others) in zip(self.constraints, columns, strict=True)
            if others and first is not None and {*others} == {first} and not constraint.holds(first)
        ]


def value_of(constraint: Constraint, run: RunRecord) -> float | None:
    """The value of a run."""
    return constraint.of(run.seconds, run.curve, run.scores)


def standing(constraint: Constraint, runs: Iterable[RunRecord]) -> tuple[Estimate, str] | None:
    """A value over runs, and whether it holds in words; None: it is not known of any.

    The mean decides. Where its interval reaches over the limit, that is said.
    """
    values = [value for run in runs if run.complete and (value := value_of(constraint, run)) is not None]
    if not values:
        return None
    found = estimate(values)
    holds = constraint.holds(fmean(values))
    ends = [end for end in (found.low, found.high) if end is not None]
    sure = not ends or all(constraint.holds(end) == holds for end in ends)
    told = ("holds" if holds else "does not hold") if sure else "not certain, as the interval contains the limit"
    return found, told


def describe_counts(constraints: Sequence[Constraint], screened: Sequence[RunRecord]) -> str:
    """How many trials of the screening stage are feasible."""
    complete = [run for run in screened if run.complete]
    feasible = sum(not Feasibility(tuple(constraints)).violated([run]) for run in complete)
    listed = ", ".join(map(str, constraints))
    verb = "is" if feasible == 1 else "are"
    return f"{KEY} {listed}: {feasible} of {counted(len(complete), 'complete trial')} {verb} feasible."
