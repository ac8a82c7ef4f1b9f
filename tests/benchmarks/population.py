# ruff: noqa: T201
"""Whether a schedule that a population has found is better than the best constant that the same budget finds.

Run it as `python tests/benchmarks/population.py [REPETITIONS]` (20). Each repetition is one whole `study=pbt` of
synthetic runs in this process. Against its schedule, replayed on fresh seeds, stands the best of as many random
constants as there are members, each trained to its end on one seed: the same budget. Two problems: "drifts", where the
best learning rate falls with time, and "hides", where the best one stays but hides what it teaches until it is lowered,
so that who lowers it early looks best for a while (the best schedule, constant until the last part, comes to 94).
"""

import random
import sys
import tempfile
from pathlib import Path
from statistics import fmean

from tuner.executors.inline import InlineExecutor
from tuner.features.population.evolution import Evolution
from tuner.features.population.facts import EVOLVE
from tuner.results.protocol import StudySettings
from tuner.results.records import TEST, StudySummary
from tuner.runs.drift_simulator import Drifting
from tuner.runs.functions import ENTRY
from tuner.study import StudyDefinition, StudyRunner, StudyStore
from tuner.study.space.space import Space
from tuner.trial.messages import JsonDict

SPACE: JsonDict = {"agent": {"learning_rate": {"low": 1e-4, "high": 1.0, "log": True}}}
SEEDS = range(10**6, 10**6 + 5)


PROBLEMS: dict[str, dict[str, float]] = {"drifts": {}, "hides": {"drift": 0.0, "hidden": 15.0}}
"""By name, how `Drifting` differs."""


def run(
    seed: int,
    members: int = 8,
    frequencies: tuple[int, ...] = (1,),
    explore: str = "perturb",
    problem: str = "drifts",
) -> StudySummary:
    """One study."""
    config: JsonDict = {
        "agent": {
            **{"_target_": "tuner.runs.drift_simulator.Drifting", "learning_rate": 1e-2, "schedule": {}},
            **PROBLEMS[problem],
        },
        "training": {"total_steps": 1600},
        "evaluation": {"num_points": 16},
    }
    settings = StudySettings(
        metric="final",
        num_trials=members,
        num_candidates=1,
        num_select_seeds=1,
        num_test_seeds=5,
    )
    search = Evolution(frequencies=frequencies, explore=explore)
    with tempfile.TemporaryDirectory() as folder, StudyStore("memory") as store, InlineExecutor() as executor:
        definition = StudyDefinition(
            name="population", config=config, space=Space.from_config(SPACE, config), settings=settings, search=search,
            seed=seed, folder=Path(folder), entry=ENTRY, probe=None,
        )  # fmt: skip
        return StudyRunner(definition, store, executor).run()


def best_constant(seed: int, members: int = 8, problem: str = "drifts") -> float:
    """Mean score on fresh seeds of the best of as many random constants, chosen on a seed of its own each."""
    rng = random.Random(f"constants {seed}")
    rates = [10.0 ** rng.uniform(-4.0, 0.0) for _ in range(members)]
    made = [Drifting(learning_rate=rate, **PROBLEMS[problem]) for rate in rates]  # type: ignore[arg-type]
    scores = [one(1000 * seed + number) for number, one in enumerate(made)]
    best = made[scores.index(max(scores))]
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
    print("problem  members  frequencies  explore  own score  replayed  best constant  schedule is better")
    alone = [("drifts", members, (1,), explore) for members in (8, 16) for explore in ("perturb", "gp")]
    patient = [("drifts", 16, (1, 4), "perturb")]
    hides = [
        ("hides", 16, frequencies, explore) for explore in ("perturb", "gp") for frequencies in ((1,), (4,), (1, 4))
    ]
    for problem, members, frequencies, explore in (*alone, *patient, *hides):
        found = [scores_of(run(seed, members, frequencies, explore, problem)) for seed in range(repetitions)]
        constants = [best_constant(seed, members, problem) for seed in range(repetitions)]
        better = fmean(replayed > constant for (_, replayed), constant in zip(found, constants, strict=True))
        own, replayed = (fmean(column) for column in zip(*found, strict=True))
        row = f"{own:9.1f}  {replayed:8.1f}  {fmean(constants):13.1f}  {better:18.0%}"
        print(f"{problem:7}  {members:7d}  {list(frequencies)!s:11}  {explore:7}  {row}", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 20)
