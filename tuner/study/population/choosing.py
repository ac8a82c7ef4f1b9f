"""Which of the candidates of a population are gone on with."""

from collections.abc import Sequence

from tuner.results.records import RunRecord
from tuner.results.selection import AGGREGATES
from tuner.study.definition import Candidate


def best_confirmed(
    candidates: Sequence[Candidate], confirmed: Sequence[RunRecord], over_seeds: str = "mean"
) -> Candidate | None:
    """The candidate with the best scores on fresh seeds, the earlier one of equals; None if none has finished any.

    Args:
        candidates: Best first.
        confirmed: Runs of the stage.
        over_seeds: How scores become one.
    """
    means = {}
    for candidate in candidates:
        runs = [run for run in confirmed if run.label == candidate.label]
        scores = [run.score for run in runs if run.score is not None]
        if any(run.complete for run in runs):
            means[candidate.label] = AGGREGATES[over_seeds](scores)
    known = [candidate for candidate in candidates if candidate.label in means]
    return max(known, key=lambda candidate: means[candidate.label], default=None)
