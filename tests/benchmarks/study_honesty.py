# ruff: noqa: T201
"""Whether the protocol's winner is really better than best-of-n, and whether the printed optimism is the true one.

Run it as `python tests/benchmarks/study_honesty.py [REPETITIONS [SEED_NOISE]]` (200, 20). Each repetition is one whole
study of synthetic runs in this process: screening by random search, race, confirmation, test. Best-of-n spends the runs
of screening, race and confirmation on screening alone and takes the best score. True scores are those of the curves
without noise, which a real study never knows.
"""

import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from optuna.samplers import RandomSampler

from tests.benchmarks.study_scale import SPACE
from tuner.executors.inline import InlineExecutor
from tuner.results.metric import Mixed
from tuner.results.protocol import StudySettings, plan_stages, stage_seeds
from tuner.results.records import StudySummary
from tuner.results.statistics import bootstrap_interval, mean
from tuner.results.verdict import verdict
from tuner.runs.functions import ENTRY
from tuner.runs.simulator import Synthetic
from tuner.study import StudyDefinition, StudyRunner, StudyStore
from tuner.study.space.space import Space
from tuner.trial.messages import JsonDict

SETTINGS = StudySettings(num_trials=60, num_race_seeds=3, num_candidates=4, num_select_seeds=4, num_test_seeds=5)


def true_score(params: dict[str, object]) -> float:
    """Of a configuration, by the study's metric and without noise."""
    arguments = {path.removeprefix("agent."): value for path, value in params.items()}
    return Mixed()(Synthetic(**arguments).expected_curve())  # type: ignore[arg-type]


def run(seed: int, noise: float) -> StudySummary:
    """One study."""
    agent = {"learning_rate": 1e-4, "gamma": 0.9, "batch_size": 256, "seed_noise": noise}
    config: JsonDict = {
        "agent": {"_target_": "tuner.simulator.Synthetic", **agent},
        "training": {"total_steps": 900},
        "evaluation": {"num_points": 9},
    }
    with tempfile.TemporaryDirectory() as folder, StudyStore("memory") as store, InlineExecutor() as executor:
        definition = StudyDefinition(
            name="honest", config=config, space=Space.from_config(SPACE, config), settings=SETTINGS, seed=seed,
            folder=Path(folder), entry=ENTRY, probe=None,
        )  # fmt: skip
        return StudyRunner(definition, store, executor, RandomSampler).run()


def best_of_n(seed: int, noise: float, num_runs: int) -> tuple[float, float]:
    """True score and selection score of the best of `num_runs` configurations with one seed each."""
    sampler, run_seed = np.random.default_rng(seed + 10**6), stage_seeds(seed, "screen", 1)[0]
    best = (-np.inf, 0.0)
    for _ in range(num_runs):
        rate, distance = 10 ** sampler.uniform(-5, 0), 10 ** sampler.uniform(-4, np.log10(0.2))
        one = Synthetic(rate, 1 - distance, int(2 ** sampler.integers(3, 11)), seed_noise=noise)
        best = max(best, (Mixed()(one.curve(run_seed)), Mixed()(one.expected_curve())))
    return best[1], best[0]


def interval(values: Sequence[float]) -> str:
    """Mean with a 95 % bootstrap interval."""
    low, high = bootstrap_interval(values, mean)
    return f"{np.mean(values):.2f} [{low:.2f}, {high:.2f}]"


def main() -> None:
    """Repeats and prints."""
    repetitions = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    noise = float(sys.argv[2]) if len(sys.argv) > 2 else 20.0
    os.fsync = lambda descriptor: None  # no power cut is measured here
    gains, wins, printed, true, plain_optimism = [], [], [], [], []
    for seed in range(repetitions):
        summary = run(seed, noise)
        assert summary.winner_label is not None
        found = verdict(summary)
        assert found.tuning is not None
        assert found.optimism is not None
        own = true_score(dict(summary.params_of(summary.winner_label)))
        budget = sum(plan.num_runs for plan in plan_stages(SETTINGS, seed, 1) if plan.stage != "test")
        plain, promised = best_of_n(seed, noise, budget)
        gains.append(own - plain)
        wins.append((own > plain) + 0.5 * (own == plain))
        printed.append(found.optimism)
        true.append(found.tuning.iqm - own)
        plain_optimism.append(promised - plain)
    print(f"{repetitions} repetitions, deviation over seeds {noise:g}, at most {budget} runs before the test")
    print(f"winner minus best-of-n, true scores: {interval(gains)}; better in {np.mean(wins):.0%}")
    print(f"printed optimism of the winner:      {interval(printed)}")
    print(f"true optimism of the winner:         {interval(true)}")
    print(f"printed minus true:                  {interval(np.subtract(printed, true).tolist())}")
    print(f"true optimism of best-of-n:          {interval(plain_optimism)}")


if __name__ == "__main__":
    main()
