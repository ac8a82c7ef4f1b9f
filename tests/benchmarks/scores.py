# ruff: noqa: T201
"""Which score of a learning curve chooses the configuration with the best return at the end.

    python -m tests.benchmarks.scores [PAIR ...] [--draws 4000]                    (all recorded landscapes)

Each draw takes 30 configurations of a landscape. They are screened by the score of one recorded seed each, the best
three by the mean score of two; the best of these is the winner. What it is worth is its mean return at the end, and
the mean height of its curves, on its two other seeds. Printed is what each score wins or loses against `mixed`, with
95 % intervals over draws; the configurations of a landscape serve all draws, so other tasks may differ by more.
"""

import argparse
import math
from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

from tests.benchmarks.landscape import PAIRS, Landscape, path_of
from tests.benchmarks.starts import around
from tuner.results.metric import AUC, Best, Curve, Final, Mixed

Array = NDArray[np.float64]
NUM_TRIALS, NUM_RACED, NUM_SEEDS = 30, 3, 4
MIXED = "mixed"


def end(share: float) -> Callable[[Curve], float]:
    """The mean of the last share of the evaluations."""
    return lambda curve: float(np.mean([value for _, value in curve][-math.ceil(share * len(curve)) :]))


def partly_area(weight: float, score: Callable[[Curve], float]) -> Callable[[Curve], float]:
    """Some of the area under the curve, and the rest of another score."""
    return lambda curve: weight * AUC()(curve) + (1.0 - weight) * score(curve)


def line(curve: Curve) -> float:
    """The end of a straight line through the last three evaluations."""
    steps, values = np.asarray(curve[-3:]).T
    return float(np.polyval(np.polyfit(steps, values, 1), steps[-1]))


SCORES: Mapping[str, Callable[[Curve], float]] = {
    MIXED: Mixed(),
    "auc": AUC(),
    "1/4 area, 3/4 last fifth": partly_area(0.25, Final()),
    "1/2 area, 1/2 last third": partly_area(0.5, end(1 / 3)),
    "last half": end(1 / 2),
    "last third": end(1 / 3),
    "final": Final(),
    "best": Best(),
    "line through the last three": line,
}


def main() -> None:
    """Prints a table for each landscape, and what scores win on average."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("pairs", nargs="*", choices=[[], *PAIRS], default=[], metavar="PAIR", help=", ".join(PAIRS))
    parser.add_argument("--draws", type=int, default=4000)
    options = parser.parse_args()
    shares: dict[str, list[float]] = {name: [] for name in SCORES}
    for pair in options.pairs or PAIRS:
        for name, share in show(pair, options.draws).items():
            shares[name].append(share)
    print("mean of all landscapes, at the end, in shares of best minus median configuration")
    for name, found in shares.items():
        print(f"  {name:28} {np.mean(found):+.3f}")


def show(pair: str, num_draws: int) -> dict[str, float]:
    """Prints what scores are worth on one landscape; returns gains at the end in shares of best minus median."""
    curves = curves_of(pair)
    ends, heights = scored(curves, Final()), scored(curves, AUC())
    scores = {name: scored(curves, score) for name, score in SCORES.items()}
    rng = np.random.default_rng(0)
    draws = [worth_of_winners(scores, ends, heights, rng) for _ in range(num_draws)]
    print(f"{pair}: {len(curves)} configurations, from {ends.mean(axis=1).min():.0f} to {ends.mean(axis=1).max():.0f}")
    gains = {}
    for name in SCORES:
        found, reference = (np.array([draw[which] for draw in draws]) for which in (name, MIXED))
        at_end, over_training = (around((found - reference)[:, k]).signed for k in (0, 1))
        print(f"  {name:28} end {found[:, 0].mean():7.1f} {at_end}   mean height {over_training}", flush=True)
        gains[name] = float((found - reference)[:, 0].mean() / (ends.mean(1).max() - np.median(ends.mean(1))))
    return gains


def curves_of(pair: str) -> list[list[Curve]]:
    """The curves of each configuration that was trained on all seeds."""
    landscape = Landscape.read(path_of(pair))
    found: dict[int, list[Curve]] = {}
    for row in landscape.rows:
        last = len(row.curve) - 1
        curve = [(step / last, value) for step, value in enumerate(row.curve) if value is not None]
        found.setdefault(row.configuration, []).append(curve)
    return [several for several in found.values() if len(several) == NUM_SEEDS]


def scored(curves: list[list[Curve]], score: Callable[[Curve], float]) -> Array:
    """Scores of configurations and seeds, [C, S]."""
    return np.array([[score(curve) for curve in several] for several in curves])


def worth_of_winners(
    scores: Mapping[str, Array], ends: Array, heights: Array, rng: np.random.Generator
) -> dict[str, tuple[float, float]]:
    """Return at the end and mean height, on two seeds, of what each score chooses by two others."""
    drawn = rng.choice(len(ends), NUM_TRIALS, replace=False)
    order = np.argsort(rng.random((NUM_TRIALS, NUM_SEEDS)), axis=1)  # each configuration has its seeds in another one
    ends, heights = (np.take_along_axis(values[drawn], order, axis=1)[:, 2:].mean(axis=1) for values in (ends, heights))
    found = {}
    for name, values in scores.items():
        mine = np.take_along_axis(values[drawn], order, axis=1)
        raced = np.argsort(-mine[:, 0], kind="stable")[:NUM_RACED]
        winner = raced[np.argmax(mine[raced, :2].mean(axis=1))]
        found[name] = (float(ends[winner]), float(heights[winner]))
    return found


if __name__ == "__main__":
    main()
