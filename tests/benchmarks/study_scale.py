# ruff: noqa: T201
"""What the controller costs per trial, against Optuna's own loop, and whether its memory grows.

Run it as `python tests/benchmarks/study_scale.py [TRIALS]` (10,000). Both sides sample the same space with random
search, report at the same rungs and keep everything in SQLite with a write-ahead log; they alternate in blocks of
trials. Optuna's side asks, suggests, reports, asks its pruner and tells. Ours is the whole study engine with synthetic
trials in this process; what the trials themselves take (their threads and files) is measured inside and left out.
Processor time is what is compared, so that a busy machine does not matter.
"""

import os
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import optuna
import psutil
from optuna.pruners import MedianPruner
from optuna.samplers import RandomSampler

from tuner.executors.inline import InlineExecutor
from tuner.functions import ENTRY
from tuner.protocol import Pruning, StudySettings
from tuner.simulator import Synthetic
from tuner.space import Space
from tuner.study import StudyDefinition, StudyListener, StudyRunner, StudyStore
from tuner.study.storage import open_storage
from tuner.trial.messages import JsonDict

NUM_BLOCKS = 10
RUNGS = (1, 3, 9)
CONFIG: JsonDict = {
    "agent": {"_target_": "tuner.simulator.Synthetic", "learning_rate": 1e-4, "gamma": 0.9, "batch_size": 256},
    "training": {"total_steps": 900},
    "evaluation": {"num_points": 9},
}
SPACE: JsonDict = {
    "agent": {
        "learning_rate": {"low": 1e-5, "high": 1.0, "log": True},
        "gamma": {"low": 0.8, "high": 0.9999, "transform": "one_minus"},
        "batch_size": {"low": 8, "high": 1024, "transform": "power_of_two"},
    }
}


class Timed(InlineExecutor):
    """Knows how long its trials took."""

    seconds = 0.0

    def _timed(self, call: Callable[..., Any], *args: Any) -> Any:
        began = time.process_time()
        try:
            return call(*args)
        finally:
            Timed.seconds += time.process_time() - began

    def start(self, *args: Any) -> None:
        """Timed."""
        self._timed(super().start, *args)

    def wait(self, *args: Any) -> Any:
        """Timed."""
        return self._timed(super().wait, *args)


def ours(folder: Path, num_trials: int) -> float:
    """Brings a study to so many screening trials; the controller's own processor seconds."""

    class Enough(Exception):  # noqa: N818
        pass

    class UntilScreened(StudyListener):
        def on_stage(self, stage: str, num_runs: int, records: Any) -> None:
            if stage != "screen":
                raise Enough

    definition = StudyDefinition(
        name="scale",
        config=CONFIG,
        space=Space.from_config(SPACE, CONFIG),
        settings=StudySettings(num_trials=num_trials, pruning=Pruning(min_rank_agreement=1.0)),
        folder=folder,
        entry=ENTRY,
        probe=None,
    )
    Timed.seconds, began = 0.0, time.process_time()
    with StudyStore(f"sqlite:///{folder}/ours.db") as store, Timed() as executor, suppress(Enough):
        StudyRunner(definition, store, executor, RandomSampler, MedianPruner(), UntilScreened()).run()
    return time.process_time() - began - Timed.seconds


def optunas(folder: Path, num_trials: int) -> float:
    """Brings Optuna's study to so many trials; its processor seconds."""
    distributions = Space.from_config(SPACE, CONFIG).distributions()
    began = time.process_time()
    storage = open_storage(f"sqlite:///{folder}/optuna.db")
    study = optuna.create_study(
        storage=storage, study_name="scale", sampler=RandomSampler(), pruner=MedianPruner(), direction="maximize",
        load_if_exists=True,
    )  # fmt: skip
    for _ in range(num_trials - len(study.get_trials(deepcopy=False))):
        trial = study.ask(distributions)
        curve = Synthetic().curve(trial.number)
        for rung in RUNGS:
            trial.report(curve[rung - 1][1], rung)
            trial.should_prune()
        study.tell(trial, curve[-1][1])
    seconds = time.process_time() - began
    storage.remove_session()
    return seconds


def main() -> None:
    """Measures and prints a line per block."""
    total = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    process, sums = psutil.Process(), [0.0, 0.0]
    with tempfile.TemporaryDirectory() as name:
        for block in range(1, NUM_BLOCKS + 1):
            num_trials = total * block // NUM_BLOCKS
            seconds = (ours(Path(name), num_trials), optunas(Path(name), num_trials))
            per_trial = [1000.0 * one / (total / NUM_BLOCKS) for one in seconds]
            sums = [before + one for before, one in zip(sums, seconds, strict=True)]
            print(
                f"{num_trials:6d} trials: ours {per_trial[0]:6.2f} ms, Optuna {per_trial[1]:6.2f} ms per trial, "
                f"ratio {seconds[0] / seconds[1]:.2f}, memory {process.memory_info().rss / 1e6:.0f} MB",
                flush=True,
            )
    print(f"all: ratio {sums[0] / sums[1]:.2f} ({os.cpu_count()} cores)")


if __name__ == "__main__":
    main()
