"""Does the rate that `tuner find lr` suggests train as well as the tuned one? PPO on CartPole.

    PYTHONPATH=. python tests/benchmarks/finder_learning_rate.py [number of seeds: 5] [environment steps: 50000]

Searches a learning rate for `experiment=ppo_cartpole` without looking at any return, trains with the suggested and with
the published (tuned) rate on the same seeds, none of which the search used, and compares the areas under the curves of
evaluation. At least 90 % are asked for.
"""

import sys
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from tuner.commands.preflight import preflight
from tuner.commands.study_from_config import run_config_of
from tuner.executors.local import LocalExecutor
from tuner.finders import FinderPlace
from tuner.finders.comparison.candidates import CandidateBudget, CandidateTrial
from tuner.finders.finder_process import Measured
from tuner.finders.finder_study import Plan, run_plan
from tuner.finders.learning_rate.search import search_rates
from tuner.finders.learning_rate.tests import RateSettings
from tuner.finders.subjects import ConfiguredSubject
from tuner.results.metric import AUC
from tuner.runs.config_checks import resolve
from tuner.trial.context import TrialContext
from tuner.trial.messages import JsonDict

FIRST_SEED = 100
ASKED = 0.9


class Area(CandidateTrial):
    """A training that is scored by the area under its curve of evaluations alone."""

    def __call__(self, context: TrialContext, point: JsonDict) -> Measured:
        """Trains at the point's rate."""
        measured = super().__call__(context, point)
        return Measured((AUC()(sorted(context.reported)),), measured.finding)


def at_rate(overrides: list[str], rate: float) -> ConfiguredSubject:
    """The experiment at another rate; its schedule follows."""
    return ConfiguredSubject(
        run_config_of(resolve(preflight("train", [*overrides, f"optimizer.learning_rate={rate}"])))
    )


def areas(overrides: list[str], rates: list[float], num_seeds: int, place: FinderPlace) -> dict[float, list[float]]:
    """The area of each rate with each seed."""
    seeds = list(range(FIRST_SEED, FIRST_SEED + num_seeds))
    points: dict[str, Any] = {"learning_rate": rates, "seed": seeds}
    job = Area({str(rate): at_rate(overrides, rate) for rate in rates}, CandidateBudget(), key="learning_rate")
    _, found = run_plan(Plan("proof", "ppo", {"rates": rates}, points, job, backend="torch"), place)
    return {rate: [one.value or 0.0 for one in found if one.point["learning_rate"] == rate] for rate in rates}


def main() -> None:
    """Prints the figures; exit status 1 if the suggestion falls short."""
    num_seeds, num_steps = (int(word) for word in [*sys.argv[1:], *("5", "50000")[len(sys.argv) - 1 :]])
    overrides = ["experiment=ppo_cartpole", f"training.total_steps={num_steps}"]
    config = run_config_of(resolve(preflight("train", overrides)))
    tuned = float(config["optimizer"]["learning_rate"])
    with TemporaryDirectory() as folder:
        place = FinderPlace(
            f"sqlite:///{folder}/studies.db", Path(folder), executor=lambda: LocalExecutor(2, "torch", threads=1)
        )
        found = search_rates(ConfiguredSubject(config), partial(at_rate, overrides), "ppo", "kl", RateSettings(), place)
        sys.stdout.write("\n".join(found.sentences) + "\n")
        suggested = found.suggestion.rate
        if suggested is None:
            sys.exit(1)
        scores = areas(overrides, sorted({suggested, tuned}), num_seeds, place)
    for rate, own in scores.items():
        sys.stdout.write(f"rate {rate:g}: area {np.mean(own):.1f} ({', '.join(f'{one:.1f}' for one in own)})\n")
    share = float(np.mean(scores[suggested]) / np.mean(scores[tuned]))
    sys.stdout.write(f"suggested against tuned: {share:.1%} (asked: {ASKED:.0%})\n")
    sys.exit(share < ASKED)


if __name__ == "__main__":
    main()
