"""Two configurations on the seeds of a stage."""

import numpy as np

from tuner.results.findings import MIN_SCORES_FOR_INTERVAL, Estimate
from tuner.results.records import StudySummary
from tuner.results.statistics import difference_interval, iqm


def scores_of(summary: StudySummary, stage: str, label: str | None) -> dict[int, float]:
    """Seed -> score of one configuration in one stage."""
    runs = summary.stage(stage, label) if label is not None else ()
    return {run.seed: run.score for run in runs if run.score is not None}


def difference_of(winner: dict[int, float], default: dict[int, float]) -> Estimate:
    """IQM of the winner minus IQM of the default; in pairs where both ran on the same seeds."""
    paired = winner.keys() == default.keys()
    x = np.array([winner[seed] for seed in sorted(winner)])
    y = np.array([default[seed] for seed in sorted(default)])
    n = min(x.size, y.size)
    low, high = difference_interval(x, y, paired=paired) if n >= MIN_SCORES_FOR_INTERVAL else (None, None)
    return Estimate(float(iqm(x) - iqm(y)), low, high, n, tuple((x - y).tolist()) if paired else ())
