# ruff: noqa: T201
"""Where a search begins: with random configurations, with the default one, or with another one in its place.

    python -m tests.benchmarks.starts [PAIR ...] [--repetitions 40]                (all recorded landscapes)

Each repetition is three whole studies of `study=quick` with the same seed, replayed on a recorded landscape (see
`recorded.py`): with `warm_start=off`, with the default configuration as the first trial, and with a random one as the
first trial. The last row says what a default costs or brings that was chosen without any
knowledge of the task. Printed is the regret, with 95 % intervals over repetitions: the true score of the best
configuration minus that of the chosen one; and what it is in pairs against `warm_start=off`.
"""

import argparse
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from tests.benchmarks.landscape import PAIRS
from tests.benchmarks.protocols import Truth, bare, composed
from tests.benchmarks.recorded import RecordedExecutor, recorded
from tuner.results.findings import Estimate
from tuner.results.metric import Mixed
from tuner.results.records import Scalar
from tuner.results.statistics import bootstrap_interval, mean
from tuner.study import StudyRunner, StudyStore
from tuner.study.space.drawn_points import anywhere

OFF, DEFAULT, RANDOM = "warm_start=off", "the default first", "a random one first"
SIZE = "quick"


def main() -> None:
    """Prints a table for each landscape."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("pairs", nargs="*", choices=[[], *PAIRS], default=[], metavar="PAIR", help=", ".join(PAIRS))
    parser.add_argument("--repetitions", type=int, default=40)
    options = parser.parse_args()
    for pair in options.pairs or PAIRS:
        show(pair, options.repetitions)


def show(pair: str, repetitions: int) -> None:
    """Prints the regret of each start on one landscape."""
    landscape = recorded(pair)
    landscape.definition = bare(landscape.definition)
    truth = Truth(landscape, Mixed())
    space = truth.landscape.definition.space
    default = space.drawn(composed(pair, SIZE)[0].config)
    print(f"{pair}: best {truth.best:.1f}, default {truth.score(default):.1f}", flush=True)
    regrets: dict[str, list[float]] = {OFF: [], DEFAULT: [], RANDOM: []}
    for seed in range(repetitions):
        rng = np.random.default_rng(2000 + seed)
        point = space.draw(lambda _, distribution, rng=rng: anywhere(distribution, rng))
        for name, start in ((OFF, None), (DEFAULT, default), (RANDOM, point)):
            regrets[name].append(regret(truth, pair, seed, start))
    for name, found in regrets.items():
        against = "" if name == OFF else around(np.subtract(found, regrets[OFF])).signed
        print(f"  {name:20} {around(found)!s:24} {against}", flush=True)


def around(values: Sequence[float]) -> Estimate:
    """Their mean with its interval."""
    return Estimate(float(np.mean(values)), *bootstrap_interval(values, mean), len(values))


def regret(truth: Truth, pair: str, seed: int, start: Mapping[str, Scalar] | None) -> float:
    """The regret of one study that begins with this point of the space, or with none."""
    definition, sampler, pruner = composed(pair, SIZE, ("study.decision=model",))
    space = definition.space
    known = {} if start is None else {"start": space.apply(definition.config, space.values(start, definition.config))}
    with tempfile.TemporaryDirectory() as folder, StudyStore("memory") as store:
        one = replace(definition, seed=seed, folder=Path(folder), warm_start=known)
        with RecordedExecutor(truth.landscape) as executor:
            summary = StudyRunner(one, store, executor, sampler, pruner).run()
    assert summary.winner_label is not None
    chosen = space.drawn(space.apply(one.config, dict(summary.params_of(summary.winner_label))))
    return truth.best - truth.score(chosen)


if __name__ == "__main__":
    main()
