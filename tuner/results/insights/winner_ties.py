"""Which trials do not differ significantly from the winner, seeds being as noisy as they are."""

import math
from dataclasses import dataclass

import numpy as np

from tuner.results.records import SCREEN, StudySummary

MIN_SCORES = 3
"""With fewer the spread over seeds is not known."""

NOISE_FACTOR = 2.0
"""Standard deviations to either side that hold about 95 % of a normal distribution."""


@dataclass(frozen=True)
class Noise:
    """Seed noise of the winner, and what follows from it.

    Attributes:
        limit: screening score from which on a trial does not differ significantly from the winner.
        deviation: standard deviation of the winner over seeds.
        num_runs: runs of the winner that this is known from.
        tied: labels of the other screening trials that do not differ significantly from it.
        num_others: other complete screening trials.
    """

    limit: float
    deviation: float
    num_runs: int
    tied: frozenset[str]
    num_others: int

    @property
    def factor(self) -> float:
        """How many deviations the limit is below the mean of these runs."""
        return NOISE_FACTOR * math.sqrt(1 + 1 / self.num_runs)

    @property
    def mean(self) -> float:
        """Of these runs."""
        return self.limit + self.factor * self.deviation


def seed_noise(summary: StudySummary, label: str | None) -> Noise | None:
    """The noise of the winner; None where it has fewer than `MIN_SCORES` runs, or there are no other trials.

    With m and s the mean and standard deviation of the winner's n runs after screening (its screening score is high by
    selection and left out), a configuration that is as good stays above m - 2 s sqrt(1 + 1/n) in about 97 of 100 seeds.
    Trials whose one screening score lies above that limit do not differ significantly from the winner.
    """
    own = [run.score for run in summary.runs if run.stage != SCREEN and run.label == label and run.score is not None]
    others = [run for run in summary.stage(SCREEN) if run.label != label and run.complete and run.feasible]
    if len(own) < MIN_SCORES or not others:
        return None
    deviation = float(np.std(own, ddof=1))
    limit = float(np.mean(own)) - NOISE_FACTOR * deviation * (1 + 1 / len(own)) ** 0.5
    tied = frozenset(run.label for run in others if run.score is not None and run.score >= limit)
    return Noise(limit, deviation, len(own), tied, len(others))
