"""The seeds of an ablation, which no stage of its study has seen."""

import numpy as np

from tuner.results.protocol import DRAWS, STREAMS

_KEY = len(STREAMS) + 1  # one is the samplers'


def ablation_seeds(study_seed: int, count: int, *, race: bool = False) -> tuple[int, ...]:
    """The first seeds to measure on, which are odd, or those of the races, which are even.

    All are disjoint from those of the study by construction: its streams end where these begin. Asking for more gives
    the same ones first; all are below 2**31.
    """
    rng = np.random.default_rng(np.random.SeedSequence(study_seed, spawn_key=(_KEY, int(race))))
    draws: dict[int, None] = {}
    while len(draws) < count:
        draws[int(rng.integers(DRAWS // 2))] = None
    first = len(STREAMS) * DRAWS
    return tuple(first + 2 * draw + (not race) for draw in draws)
