"""Selection of configurations from stage to stage, and of the winner. Pure functions over records.

Screening sees each configuration on one seed, so its best are lucky as well as good. The race gives a few of them
further tune seeds, the same for all, and lets go of who is clearly worse; confirmation on seeds of its own decides.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Protocol, TypeVar

from tuner.results.records import RunRecord
from tuner.results.statistics import paired_permutation_p


class Labelled(Protocol):
    """A configuration under the name that its runs are recorded by."""

    @property
    def label(self) -> str:
        """The name."""
        ...


LabelledT = TypeVar("LabelledT", bound=Labelled)

MIN_RACE_SEEDS = 3
"""On fewer seeds nobody is dropped: no test could tell."""

DROP_LEVEL = 0.125
"""One-sided level of the race's test: what three seeds reach if the leader is ahead on each of them."""

AGGREGATES: dict[str, Callable[[list[float]], float]] = {"mean": fmean, "worst": min}
"""How scores over seeds become one, by the name that is typed for it."""


def choose_candidates(screened: Sequence[RunRecord], count: int) -> tuple[RunRecord, ...]:
    """The best complete runs of the screening stage, best first; the earlier one of equals."""
    complete = [run for run in screened if run.complete]
    return tuple(sorted(complete, key=lambda run: (-_score(run), run.number))[:count])


def rank_entrants(
    entrants: Sequence[RunRecord], raced: Sequence[RunRecord], over_seeds: str = "mean"
) -> tuple[RunRecord, ...]:
    """The entrants of the race by their scores on all tune seeds, the screening seed included; best first.

    Args:
        entrants: Their screening runs.
        raced: Runs of the race; one without a score (crashed to the end) counts as the worst score there is.
        over_seeds: One of `AGGREGATES`.
    """
    means = {one.label: _aggregate(scores.values(), over_seeds) for one, scores in _tune_scores(entrants, raced)}
    return tuple(sorted(entrants, key=lambda one: (-means[one.label], -_score(one), one.number)))


def survivors(
    entrants: Sequence[RunRecord], raced: Sequence[RunRecord], num_kept: int, over_seeds: str = "mean"
) -> tuple[RunRecord, ...]:
    """The entrants that stay in the race, best first: those that are not clearly worse than the leader.

    Clearly worse: a paired permutation test over the seeds that both have run comes out at `DROP_LEVEL` or below. The
    best `num_kept` stay whatever the test says.

    Args:
        entrants: Screening runs of who is in the race still.
        raced: Runs of the race.
        num_kept: How many will be confirmed.
        over_seeds: One of `AGGREGATES`.
    """
    ranked = rank_entrants(entrants, raced, over_seeds)
    scores = {one.label: found for one, found in _tune_scores(entrants, raced)}
    leader = scores[ranked[0].label]
    rest = (one for one in ranked[num_kept:] if not is_clearly_worse(scores[one.label], leader))
    return (*ranked[:num_kept], *rest)


def is_clearly_worse(own: Mapping[int, float], leader: Mapping[int, float]) -> bool:
    """Whether the leader is ahead by a paired permutation test at `DROP_LEVEL`; never on too few seeds.

    Args:
        own: Seed -> score.
        leader: The same of the leader.
    """
    shared = sorted(own.keys() & leader.keys())
    if len(shared) < MIN_RACE_SEEDS:
        return False
    return paired_permutation_p([leader[seed] for seed in shared], [own[seed] for seed in shared]) <= DROP_LEVEL


def choose_winner(
    confirmed: Sequence[RunRecord], candidates: Sequence[LabelledT], over_seeds: str = "mean"
) -> LabelledT | None:
    """The candidate with the best confirmation scores; of equals the one that comes first.

    Earlier scores decide nothing else, since each candidate was chosen for its own. A run without a score (crashed to
    the end) counts as the worst score there is.

    Args:
        confirmed: Runs of the confirmation stage.
        candidates: As chosen, best first.
        over_seeds: One of `AGGREGATES`.
    """
    known = [run.score for run in confirmed if run.score is not None]
    if not known:
        return None
    found: dict[str, float] = {}
    for candidate in candidates:
        runs = [run for run in confirmed if run.label == candidate.label]
        if any(run.complete for run in runs):
            found[candidate.label] = _aggregate(_scores(runs, min(known)).values(), over_seeds)
    # max() keeps the first of equals
    return max((one for one in candidates if one.label in found), key=lambda one: found[one.label], default=None)


@dataclass(frozen=True)
class WinnerSelection:
    """The configuration with the best score.

    Attributes:
        over_seeds: One of `AGGREGATES`.
    """

    over_seeds: str = "mean"

    def entrants(self, screened: Sequence[RunRecord], count: int) -> tuple[RunRecord, ...]:
        """Those that go on from the screening stage, best first."""
        return choose_candidates(screened, count)

    def chosen(
        self, confirmed: Sequence[RunRecord], candidates: Sequence[RunRecord], raced: Sequence[RunRecord] = ()
    ) -> tuple[RunRecord, ...]:
        """The winner, if there is one; what was raced chose the candidates and decides nothing else."""
        del raced
        winner = choose_winner(confirmed, candidates, self.over_seeds)
        return () if winner is None else (winner,)

    def kept(self, winners: Sequence[RunRecord]) -> dict[str, object]:
        """Nothing but the winner is kept."""
        del winners
        return {}


def _tune_scores(
    entrants: Sequence[RunRecord], raced: Sequence[RunRecord]
) -> Iterable[tuple[RunRecord, dict[int, float]]]:
    """Each entrant with its scores by seed, over screening and race."""
    worst = min(run.score for run in (*entrants, *raced) if run.score is not None)
    for one in entrants:
        yield one, {one.seed: _score(one), **_scores([run for run in raced if run.label == one.label], worst)}


def _scores(runs: Sequence[RunRecord], worst: float) -> dict[int, float]:
    """Scores by seed; runs that have not ended are left out."""
    return {run.seed: worst if run.score is None else run.score for run in runs if run.outcome is not None}


def _aggregate(scores: Iterable[float], over_seeds: str) -> float:
    return AGGREGATES[over_seeds](list(scores))


def _score(run: RunRecord) -> float:
    assert run.value is not None
    return run.value
