"""Scores of finished runs against the curves that are kept beside them: somebody may have edited one of the two."""

import math
from collections.abc import Iterable, Iterator, Sequence
from statistics import fmean

from tuner.errors import UserError
from tuner.results.metric import SECONDS, Metric, Rescale, Timing, as_it_is, other_values
from tuner.results.records import Objective, RunRecord
from tuner.trial.messages import Outcome

_TOLERANCE = 1e-6
"""Of a score, and of what it is a part of: other machines add up in another order."""


def check_scores(
    runs: Iterable[RunRecord], metric: Metric, others: Sequence[Objective], rescale: Rescale = as_it_is
) -> None:
    """Refuses a score that does not come of its curve, before anything is chosen by it or sent to the sampler.

    Args:
        runs: Of a study.
        metric: Of the study.
        others: Objectives behind it.
        rescale: To what the parts of runs are scored by.

    Raises:
        UserError: Names the first such run.
    """
    for run in runs:
        for name, kept, expected in _pairs(run, metric, others, rescale):
            if kept is not None and not math.isclose(kept, expected, rel_tol=_TOLERANCE, abs_tol=_TOLERANCE):
                where = f"{run.stage}/{run.number}" + (f" in {run.environment}" if run.environment else "")
                raise UserError(
                    f"the storage holds {kept:g} as the {name} of run {where}, and {expected:g} comes of what is kept "
                    "beside it: somebody has edited it. Put back a copy of the storage, or begin another study with "
                    "another study.name or storage.url"
                )
        check_scores(run.parts, metric, (), rescale)


def _pairs(
    run: RunRecord, metric: Metric, others: Sequence[Objective], rescale: Rescale = as_it_is
) -> Iterator[tuple[str, float | None, float]]:
    """Kept and recomputed values of a run, by name; none of a run whose score is not its own."""
    if run.outcome is not Outcome.COMPLETE:
        return
    scores = [part.score for part in run.parts if part.score is not None]
    if scores:
        yield "score", run.value, fmean(scores)
    elif run.curve:
        timing = Timing(run.times, run.time_limit)
        if metric.timed and not timing.covers(run.curve):
            return
        yield "score", run.value, metric(rescale(run.environment, run.curve), timing)
        for other, expected in zip(others, other_values(others, run.curve, run.seconds, timing), strict=True):
            if other.name != SECONDS:
                yield other.name, run.scores.get(other.name), expected
