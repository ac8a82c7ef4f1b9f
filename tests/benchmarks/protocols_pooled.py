# ruff: noqa: T201
"""Results of `protocols.py`, pooled over the landscapes: how much regret and error a choice takes away.

    python tests/benchmarks/protocols_pooled.py FILE [REPETITIONS [SIZE [ROW ...]]]     (100 quick decision)

FILE holds the repetitions of the first row and of those whose name contains one of these words, on every landscape;
nothing is repeated here. Regrets are differences in pairs, as shares of the mean regret of the first row on that
landscape, with 95 % intervals over the repetitions of each.
"""

import sys
import zlib
from pathlib import Path

import numpy as np

from tests.benchmarks.landscape import PAIRS, path_of
from tests.benchmarks.protocols import STUDIES, Found, Kept, seeds_of

_RESAMPLES = 5000


def pooled(before: list[list[Found]], after: list[list[Found]]) -> tuple[float, float, float, float]:
    """Share of regret that is added, with its interval, and the error of the score as a multiple of what it was.

    Args:
        before: Of each landscape the repetitions of the first row.
        after: The same of another row, with the same seeds.
    """
    shares, errors = [], []
    for one, other in zip(before, after, strict=True):
        usual = np.mean([found.regret for found in one])
        differences = [new.regret - old.regret for old, new in zip(one, other, strict=True)]
        shares.append(np.array(differences) / usual)
        sizes = [np.mean([abs(found.optimism) for found in row]) for row in (other, one)]
        errors.append(sizes[0] / sizes[1])
    rng = np.random.default_rng(0)
    draws = [np.mean([rng.choice(own, len(own)).mean() for own in shares]) for _ in range(_RESAMPLES)]
    low, high = np.quantile(draws, [0.025, 0.975])
    return float(np.mean([own.mean() for own in shares])), float(low), float(high), float(np.mean(errors))


def main(file: str, repetitions: str = "100", size: str = "quick", *rows: str) -> None:
    """Reads and prints."""
    kept = {pair: Kept(Path(file), zlib.crc32(path_of(pair).read_bytes())) for pair in PAIRS}

    def missing() -> Found:
        raise SystemExit("a row is missing: repeat it on every landscape first")

    def done(name: str) -> list[list[Found]]:
        return [[kept[pair]((pair, size, name, seed), missing) for seed in seeds_of(repetitions)] for pair in PAIRS]

    first, *others = [name for name in STUDIES if any(word in name for word in ("as set", *(rows or ("decision",))))]
    for name in others:
        share, low, high, error = pooled(done(first), done(name))
        print(f"{name}: regret {share:+.1%} [{low:+.1%}, {high:+.1%}], error of the score x {error:.2f}")


if __name__ == "__main__":
    main(*sys.argv[1:])
