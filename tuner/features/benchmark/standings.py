"""Results of a benchmark: scores of entrants in environments, put on one scale and pooled."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import permutations

import numpy as np

from tuner.features.benchmark.pooled_statistics import (
    difference_of_iqms,
    improvement,
    improvement_interval,
    pooled_interval,
    pooled_iqm,
)
from tuner.results.findings import MIN_SCORES_FOR_INTERVAL
from tuner.results.number_format import format_alike, format_number
from tuner.results.statistics import FloatArray, Interval


@dataclass(frozen=True)
class EnvScale:
    """Which scores of an environment are 0 and 1.

    Attributes:
        low: The score that is 0.
        high: The score that is 1.
        source: Where they come from.
    """

    low: float
    high: float
    source: str

    def __call__(self, scores: Sequence[float]) -> FloatArray:
        """Scores on the scale; where it has no length, all are 0.5."""
        if self.high <= self.low:
            return np.full(len(scores), 0.5)
        return (np.asarray(scores, np.float64) - self.low) / (self.high - self.low)

    @property
    def words(self) -> str:
        """Both of them."""
        if self.high <= self.low:
            return "all entrants have the same mean: each score counts as 0.5"
        return f"0 is {format_number(self.low)}, 1 is {format_number(self.high)} ({self.source})"


@dataclass(frozen=True)
class Improvement:
    """One entrant against another.

    Attributes:
        better: Name of the first.
        other: Name of the second.
        probability: That a run of the first scores higher than one of the second.
        interval: Of the probability, 95 %.
        difference: Interquartile mean of the first minus that of the second.
        difference_interval: Of the difference, 95 %.
    """

    better: str
    other: str
    probability: float
    interval: Interval
    difference: float
    difference_interval: Interval

    @property
    def in_words(self) -> str:
        """The probability, `88 % [36, 100]`."""
        low, high = (round(100 * end) for end in self.interval)
        return f"{round(100 * self.probability)} % [{low}, {high}]"


@dataclass(frozen=True)
class Standings:
    """The scores of a benchmark.

    Attributes:
        scores: Entrant -> environment -> a score for each seed.
        references: Environment -> scores that are 0 and 1, where they are declared.
    """

    scores: Mapping[str, Mapping[str, Sequence[float]]]
    references: Mapping[str, tuple[float, float]] = field(default_factory=dict)

    @property
    def envs(self) -> tuple[str, ...]:
        """The environments, in their order."""
        return tuple(next(iter(self.scores.values())))

    @property
    def num_seeds(self) -> int:
        """Runs of each entrant in each environment."""
        return len(self.scores[next(iter(self.scores))][self.envs[0]])

    @property
    def is_rescaled(self) -> bool:
        """Whether scores are put on a common scale: in one environment they need none and stay as they are."""
        return len(self.envs) > 1

    @property
    def pooled(self) -> str:
        """The pooled quantity, in words."""
        return "normalised scores" if self.is_rescaled else "scores"

    @cached_property
    def scales(self) -> Mapping[str, EnvScale]:
        """Of each environment; empty where scores stay as they are."""
        return {env: self._scale(env) for env in self.envs} if self.is_rescaled else {}

    def _scale(self, env: str) -> EnvScale:
        if env in self.references:
            return EnvScale(*self.references[env], "reference of its file")
        means = [float(np.mean(own[env])) for own in self.scores.values()]
        return EnvScale(min(means), max(means), "lowest and highest mean of the entrants")

    @cached_property
    def tables(self) -> Mapping[str, FloatArray]:
        """Scores of each entrant on the scale of each environment, [R, E]."""
        if not self.is_rescaled:
            return {name: np.array([own[env] for env in self.envs]).T for name, own in self.scores.items()}
        return {
            name: np.stack([self.scales[env](own[env]) for env in self.envs], axis=-1)
            for name, own in self.scores.items()
        }

    @cached_property
    def iqms(self) -> Mapping[str, float]:
        """Pooled interquartile mean of each entrant, the best first."""
        found = {name: float(pooled_iqm(table)) for name, table in self.tables.items()}
        return dict(sorted(found.items(), key=lambda item: -item[1]))

    @cached_property
    def intervals(self) -> Mapping[str, Interval]:
        """95 % interval of each of them."""
        return {name: pooled_interval(self.tables[name]) for name in self.iqms}

    @cached_property
    def improvements(self) -> tuple[Improvement, ...]:
        """Of each pair of entrants, both ways."""
        return tuple(
            Improvement(
                first,
                second,
                improvement(self.tables[first], self.tables[second]),
                improvement_interval(self.tables[first], self.tables[second]),
                *difference_of_iqms(self.tables[first], self.tables[second]),
            )
            for first, second in permutations(self.iqms, 2)
        )

    @property
    def leads(self) -> tuple[Improvement, ...]:
        """The best entrant against each of the others."""
        return tuple(one for one in self.improvements if one.better == next(iter(self.iqms)))

    @property
    def verdict(self) -> str:
        """One or two sentences."""
        best, *others = self.iqms
        if not others:
            return f"{best} is the only entrant."
        if self.num_seeds < MIN_SCORES_FOR_INTERVAL:
            return (
                f"{best} has the highest interquartile mean, but on fewer than {MIN_SCORES_FOR_INTERVAL} seeds nothing "
                f"can be concluded: add some (seeds)."
            )
        open_ones = [one for one in self.leads if one.interval.low <= 0.5]
        if not open_ones:
            return f"{best} is the best: its runs score higher than those of every other entrant, beyond chance."
        told = ", ".join(f"{one.other} ({one.in_words})" for one in open_ones)
        return (
            f"{best} has the highest interquartile mean, but is not clearly better than {told}: the interval of the "
            "probability that a run of it scores higher begins at 50 % or below."
        )

    def line(self, name: str) -> str:
        """`dqn  0.91 [0.84, 0.97]`; without the interval where seeds are too few for one."""
        if self.num_seeds < MIN_SCORES_FOR_INTERVAL:
            return format_number(self.iqms[name])
        middle, low, high = format_alike((self.iqms[name], *self.intervals[name]))
        return f"{middle} [{low}, {high}]"

    def lead(self, one: Improvement) -> str:
        """The difference between two entrants and its interval, as `line`."""
        if self.num_seeds < MIN_SCORES_FOR_INTERVAL:
            return format_number(one.difference)
        middle, low, high = format_alike((one.difference, *one.difference_interval))
        return f"{middle} [{low}, {high}]"
