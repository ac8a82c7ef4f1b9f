# ruff: noqa: T201
"""Whether a schedule that a population has found is better than the best constant that the same budget finds.

Run it as `python tests/benchmarks/population.py [REPETITIONS]` (20). Each repetition is one whole `study=pbt` of
synthetic runs whose best learning rate falls with time, in this process. Against its schedule, replayed on fresh seeds,
stands the best of as many random constants as there are members, each trained to its end on one seed: the same budget.
"""

import random
import sys
import tempfile
from pathlib import Path
from statistics import fmean

from tuner.executors.inline import InlineExecutor
from tuner.results.evolution import Evolution
from tuner.results.protocol import StudySettings
from tuner.results.records import EVOLVE, TEST, StudySummary
from tuner.runs.drifting import Drifting
from tuner.runs.functions import ENTRY
from tuner.study import StudyDefinition, StudyRunner, StudyStore
from tuner.study.space.space import Space
from tuner.trial.messages import JsonDict

SPACE: JsonDict = {"agent": {"learning_rate": {"low": 1e-4, "high": 1.0, "log": True}}}
SEEDS = range(10**6, 10**6 + 5)


def run(seed: int, members: int = 8, frequencies: tuple[int, ...] = (1,), explore: str = "perturb") -> StudySummary:
    """One study."""
    config: JsonDict = {
        "agent": {"_target_": "tuner.runs.drifting.Drifting", "learning_rate": 1e-2, "schedule": {}},
        "training": {"total_steps": 1600},
        "evaluation": {"num_points": 16},
    }
    settings = StudySettings(
        metric="final",
        num_trials=members,
        num_candidates=1,
        num_select_seeds=1,
        num_test_seeds=5,
        evolution=Evolution(frequencies=frequencies, explore=explore),
    )
    with tempfile.TemporaryDirectory() as folder, StudyStore("memory") as store, InlineExecutor() as executor:
        definition = StudyDefinition(
            name="population", config=config, space=Space.from_config(SPACE, config), settings=settings, seed=seed,
            folder=Path(folder), entry=ENTRY, probe=None,
        )  # fmt: skip
        return StudyRunner(definition, store, executor).run()


def best_constant(seed: int, members: int = 8) -> float:
    """Mean score on fresh seeds of the best of as many random constants, chosen on a seed of its own each."""
    rng = random.Random(f"constants {seed}")
    rates = [10.0 ** rng.uniform(-4.0, 0.0) for _ in range(members)]
    scores = {rate: Drifting(learning_rate=rate)(1000 * seed + number) for number, rate in enumerate(rates)}
    best = Drifting(learning_rate=max(scores, key=lambda rate: scores[rate]))
    return fmean(best(fresh) for fresh in SEEDS)


def scores_of(summary: StudySummary) -> tuple[float, float]:
    """The population's own score, and that of its schedule on fresh seeds."""
    label = summary.winner_label
    assert label is not None
    own = [run.score for run in summary.stage(EVOLVE, label) if run.score is not None]
    replayed = [run.score for run in summary.stage(TEST, label) if run.score is not None]
    return own[0] if own else float("nan"), fmean(replayed)


def main(repetitions: int) -> None:
    """Prints means, and how often the schedule is better."""
    print("members  frequencies  explore  own score  replayed  best constant  schedule is better")
    cases = ((8, (1,), "perturb"), (8, (1,), "gp"), (16, (1,), "perturb"), (16, (1,), "gp"), (16, (1, 4), "perturb"))
    for members, frequencies, explore in cases:
        found = [scores_of(run(seed, members, frequencies, explore)) for seed in range(repetitions)]
        constants = [best_constant(seed, members) for seed in range(repetitions)]
        better = fmean(replayed > constant for (_, replayed), constant in zip(found, constants, strict=True))
        own, replayed = (fmean(column) for column in zip(*found, strict=True))
        row = f"{own:9.1f}  {replayed:8.1f}  {fmean(constants):13.1f}  {better:18.0%}"
        print(f"{members:7d}  {list(frequencies)!s:11}  {explore:7}  {row}", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 20)
