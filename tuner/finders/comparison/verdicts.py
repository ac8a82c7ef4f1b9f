"""The best candidate, and those that do not differ significantly from it: scores of candidates over the same seeds."""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from tuner.finders.finder_study import FinderRun
from tuner.results.number_format import format_number, join_words
from tuner.results.selection import DROP_LEVEL, MIN_RACE_SEEDS
from tuner.results.statistics import Interval, bootstrap_interval, iqm, paired_permutation_p

FEWEST_FOR_INTERVAL = 5
_SURE = 0.05
_RESAMPLES = 2000


@dataclass(frozen=True)
class Rank:
    """A candidate that ran to the end with every seed.

    Attributes:
        name: Of the candidate.
        scores: By seed, in order of the seeds.
        score: Interquartile mean of them (below four seeds their mean).
        interval: 95 % bootstrap interval; None below five seeds, where it would mean nothing.
        probability_best: Share of bootstrap resamples of the seeds in which it is the best, ties shared.
        tied: Whether it does not differ significantly from the best (as the best itself).
    """

    name: str
    scores: tuple[float, ...]
    score: float
    interval: Interval | None
    probability_best: float
    tied: bool


@dataclass(frozen=True)
class Comparison:
    """Result of a comparison.

    Attributes:
        standings: Best first.
        failures: Candidates that did not come to the end with every seed: what was wrong, in words.
        seeds: On which all were compared.
        higher_is_better: Whether a higher score is the better one.
        what: The name of the score.
    """

    standings: tuple[Rank, ...]
    failures: Mapping[str, str]
    seeds: tuple[int, ...]
    higher_is_better: bool = True
    what: str = "return"
    by_name: Mapping[str, Rank] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Indexes the standings."""
        object.__setattr__(self, "by_name", {standing.name: standing for standing in self.standings})

    @property
    def best(self) -> Rank | None:
        """The best; None if no candidate came to the end with every seed."""
        return self.standings[0] if self.standings else None

    @property
    def tied(self) -> tuple[str, ...]:
        """The best and all that do not differ significantly from it."""
        return tuple(standing.name for standing in self.standings if standing.tied)

    @property
    def sentences(self) -> tuple[str, ...]:
        """The verdict in plain words."""
        return (*self._about_the_best(), *(f"{name} failed: {why}" for name, why in self.failures.items()))

    def _about_the_best(self) -> tuple[str, ...]:
        best = self.best
        if best is None:
            return ("No candidate came to the end with every seed.",)
        score = f"{self.what} {format_number(best.score)} over {counted_seeds(len(self.seeds))}"
        if len(self.standings) == 1:
            return (f"{best.name} is the only candidate that came to the end: {score}.",)
        if len(self.seeds) < MIN_RACE_SEEDS:
            return (
                f"{best.name} is ahead ({score}), but on fewer than {MIN_RACE_SEEDS} seeds nothing can be concluded.",
            )
        others = [name for name in self.tied if name != best.name]
        if not others:
            chance = max(2.0 * paired_permutation_p(*self._turned(best, self.by_name[name])) for name in self._others)
            place, more = ("the best, ahead", "") if chance <= _SURE else ("ahead", ": more seeds would tell")
            return (
                f"{best.name} is {place} of every other one on the same seeds ({score}). Two equal ones would be as "
                f"far apart in {chance:.0%} of cases{more}.",
            )
        if all(self.by_name[name].scores == best.scores for name in others):
            return (f"{join_words([best.name, *others])} tie: the same {score}.",)
        verb = "does" if len(others) == 1 else "do"
        return (f"{best.name} is ahead ({score}), but {join_words(others)} {verb} not differ significantly: a tie.",)

    @property
    def _others(self) -> list[str]:
        return [standing.name for standing in self.standings[1:]]

    def _turned(self, best: Rank, other: Rank) -> tuple[list[float], list[float]]:
        """Their scores, the higher the better."""
        sign = 1.0 if self.higher_is_better else -1.0
        return [sign * score for score in best.scores], [sign * score for score in other.scores]


def compare(
    names: Sequence[str], findings: Sequence[FinderRun], *, higher_is_better: bool = True, what: str = "return"
) -> Comparison:
    """Ranks the candidates of a comparison by their findings.

    A candidate is tied with the best unless a paired permutation test over the seeds comes out at `DROP_LEVEL` or
    below, as in the race of a study: on three seeds, the best must be ahead on each.

    Args:
        names: Of all candidates.
        findings: Of every candidate (`point["candidate"]`) with every seed (`point["seed"]`).
        higher_is_better: Of two scores.
        what: The name of the score.
    """
    seeds = tuple(sorted({int(finding.point["seed"]) for finding in findings}))
    scores: dict[str, tuple[float, ...]] = {}
    failures: dict[str, str] = {}
    for name in names:
        own = {int(one.point["seed"]): one for one in findings if one.point["candidate"] == name}
        failed = [one for one in own.values() if not one.complete]
        if failed:
            failures[name] = _words(failed)
        else:
            scores[name] = tuple(_value(own[seed]) for seed in seeds)
    return Comparison(_standings(scores, higher_is_better), failures, seeds, higher_is_better, what)


def counted_seeds(num_seeds: int) -> str:
    """`1 seed`, `3 seeds`."""
    return f"{num_seeds} seed{'s' if num_seeds > 1 else ''}"


def _value(finding: FinderRun) -> float:
    assert finding.value is not None
    return finding.value


def _words(failed: Sequence[FinderRun]) -> str:
    """The failures of a candidate: `crashed (seeds 0 and 2): why`."""
    kinds = dict.fromkeys(one.outcome.value.replace("_", " ") for one in failed)
    seeds = sorted(int(one.point["seed"]) for one in failed)
    reasons = dict.fromkeys(one.reason for one in failed if one.reason)
    where = f"seed{'s' if len(seeds) > 1 else ''} {join_words(map(str, seeds))}"
    return f"{join_words(kinds)} ({where})" + (f": {'; '.join(reasons)}" if reasons else "")


def _standings(scores: Mapping[str, tuple[float, ...]], higher_is_better: bool) -> tuple[Rank, ...]:
    if not scores:
        return ()
    sign = 1.0 if higher_is_better else -1.0
    means = {name: float(iqm(own)) for name, own in scores.items()}
    order = sorted(scores, key=lambda name: -sign * means[name])  # stable: the first named of equals
    best = [sign * score for score in scores[order[0]]]
    chances = _chances([[sign * score for score in scores[name]] for name in order])
    return tuple(
        Rank(
            name,
            scores[name],
            means[name],
            bootstrap_interval(scores[name]) if len(scores[name]) >= FEWEST_FOR_INTERVAL else None,
            chance,
            tied=name == order[0] or not _clearly_worse([sign * score for score in scores[name]], best),
        )
        for name, chance in zip(order, chances, strict=True)
    )


def _clearly_worse(own: Sequence[float], best: Sequence[float]) -> bool:
    if len(own) < MIN_RACE_SEEDS:
        return False
    if len(own) > 16:  # the exact test would take too long: pairs are resampled instead
        differences = np.asarray(best) - np.asarray(own)
        return bootstrap_interval(differences, level=1.0 - 2.0 * DROP_LEVEL).low > 0.0
    return statistics.fmean(best) > statistics.fmean(own) and paired_permutation_p(best, own) <= DROP_LEVEL


def _chances(scores: Sequence[Sequence[float]]) -> list[float]:
    """For each candidate, the share of resamples of the seeds in which its mean is the highest, ties shared."""
    table = np.asarray(scores, np.float64)  # [candidates, seeds]
    draws = np.random.default_rng(0).integers(table.shape[1], size=(_RESAMPLES, table.shape[1]))
    means = table[:, draws].mean(axis=-1)  # [candidates, resamples]
    is_best = np.isclose(means, means.max(axis=0), rtol=1e-12, atol=0.0)
    return [float(share) for share in (is_best / is_best.sum(axis=0)).mean(axis=1)]
