"""Findings about a study: their kinds, estimates over seeds, and the verdict that is made of them."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from tuner.results.number_format import format_alike, format_number, format_signed
from tuner.results.statistics import bootstrap_interval, iqm

MIN_SCORES_FOR_INTERVAL = 5
"""With fewer the bootstrap interval is far too narrow to mean 95 %: the points are shown instead."""


class Finding(StrEnum):
    """Kinds of finding about the study's winner."""

    NOTHING_FINISHED = "nothing finished"
    ALL_FAILED = "all trials failed"
    NOT_TESTED = "not tested yet"
    NONE_FEASIBLE = "no trial is feasible"
    NO_COMPARISON = "no default to compare with"
    BETTER = "better than the default"
    TOO_FEW_SEEDS = "higher than the default on too few seeds"
    UNCERTAIN = "not statistically better than the default"
    DEFAULT_AS_GOOD = "the default is as good or better"
    FRONT = "configurations that trade one objective for another"
    BEST_JOB = "the best job of a sweep, run once"


@dataclass(frozen=True)
class Estimate:
    """Interquartile mean of scores over seeds.

    Attributes:
        iqm: the estimate.
        low: lower end of the 95 % bootstrap interval; None below `MIN_SCORES_FOR_INTERVAL` scores.
        high: upper end.
        n: number of scores.
        points: the scores.
    """

    iqm: float
    low: float | None
    high: float | None
    n: int
    points: tuple[float, ...] = ()

    def __str__(self) -> str:
        """`498 [489, 500]`, or with few scores `498.2 (496.4, 500.0)`: the points in place of an interval."""
        return f"{self.mean} {self.around}".rstrip()

    @property
    def mean(self) -> str:
        """The interquartile mean, in digits that its interval or points give a meaning."""
        return self._texts()[0]

    @property
    def around(self) -> str:
        """The interval, or with few scores the points; nothing of a single one."""
        others = self._texts()[1:]
        brackets = "[]" if self.low is not None else "()"
        return f"{brackets[0]}{', '.join(others)}{brackets[1]}" if others else ""

    @property
    def signed(self) -> str:
        """As a difference, with its interval if it has one: `+280 [+240, +310]`."""
        if self.low is None or self.high is None:
            return format_signed(self.iqm)
        mean, low, high = format_alike((self.iqm, self.low, self.high), signed=True)
        return f"{mean} [{low}, {high}]"

    def signed_like(self, value: float) -> str:
        """Another number with its sign, in the digits that the interval has."""
        ends = [value + end - self.iqm for end in (self.low, self.high) if end is not None]
        return format_alike((value, *ends), signed=True)[0]

    @property
    def lost(self) -> str:
        """A difference below zero as what is lost, with its interval: `12 [5, 20]`."""
        assert self.low is not None
        assert self.high is not None
        mean, low, high = format_alike((-self.iqm, -self.high, -self.low))
        return f"{mean} [{low}, {high}]"

    def _texts(self) -> list[str]:
        if self.low is not None and self.high is not None:
            return format_alike((self.iqm, self.low, self.high))
        return format_alike((self.iqm, *sorted(self.points))) if self.n > 1 else [format_number(self.iqm)]

    @property
    def is_above_zero(self) -> bool:
        """Whether the whole interval is."""
        return self.low is not None and self.low > 0.0

    @property
    def is_below_zero(self) -> bool:
        """Whether the whole interval is."""
        return self.high is not None and self.high < 0.0


@dataclass(frozen=True)
class Verdict:
    """Verdict on a study.

    Attributes:
        finding: in one of a few kinds.
        sentence: what a reader should take away.
        details: further sentences: optimism, failed test runs, what "within noise" means.
        winner: test scores of the winner; None before the test stage has finished.
        default: test scores of the default configuration; None if there are none.
        difference: winner minus default, with an interval (over shared seeds in pairs) from 5 seeds on.
        improvement: probability that a run of the winner scores higher than a run of the default, ties one half.
        optimism: tuning score minus test score of the winner, both IQM of the same metric.
        tuning: the scores that the winner was chosen by.
        within_noise: how many other screening trials do not differ significantly from the winner; None if seed noise
            is unknown.
    """

    finding: Finding
    sentence: str
    details: tuple[str, ...] = ()
    winner: Estimate | None = None
    default: Estimate | None = None
    difference: Estimate | None = None
    improvement: float | None = None
    optimism: float | None = None
    tuning: Estimate | None = None
    within_noise: int | None = None


def estimate(points: Sequence[float]) -> Estimate:
    """IQM of scores over seeds, with a 95 % interval from 5 scores on.

    Raises:
        ValueError: no scores, or one that is not finite.
    """
    low, high = bootstrap_interval(points) if len(points) >= MIN_SCORES_FOR_INTERVAL else (None, None)
    return Estimate(float(iqm(points)), low, high, len(points), tuple(points))
