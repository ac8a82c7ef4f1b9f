# ruff: noqa: T201
"""Cost of the controller per trial, against Optuna's own loop, and the growth of its memory and its page.

Run it as `python tests/benchmarks/study_scale.py [TRIALS] [random|tpe] [sqlite|memory]` (10,000, random, sqlite). Both
sides sample the same space with the same sampler, report at the same rungs and keep everything in SQLite with a
write-ahead log (or in memory, to see what is not SQLite's), each in a process of its own; they take turns, a block of
trials each. Optuna's side asks, suggests, reports, asks its pruner and
tells. Ours is the whole study engine with all that listens to it, the live table and the trackers too, and synthetic
trials in its process; what the trials themselves take (their threads and files) is measured inside and left out.
Processor time is what is compared, so that a busy machine does not matter. At the end the page of the study is written.
"""

import gc
import multiprocessing
import os
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import optuna
import psutil
from optuna.pruners import MedianPruner
from optuna.samplers import BaseSampler, RandomSampler, TPESampler
from rich.console import Console

from tuner.executors.inline import InlineExecutor
from tuner.reporting import write_page
from tuner.results.protocol import Pruning, StudySettings
from tuner.results.records import RunRecord
from tuner.runs.functions import ENTRY
from tuner.runs.simulator import Synthetic
from tuner.study import Listeners, StudyDefinition, StudyListener, StudyRunner, StudyStore, summarise
from tuner.study.run_registry import Run
from tuner.study.space.space import Space
from tuner.study.storage.open_storage import open_storage
from tuner.study.watching.display import study_display
from tuner.study.watching.study_run import StudyRunListener
from tuner.study.watching.trial_tracking import TrackingListener
from tuner.trackers.jsonl import JsonlTracker
from tuner.trial.messages import JsonDict

NUM_BLOCKS = 10
RUNGS = (1, 3, 9)
SAMPLERS: dict[str, Callable[..., BaseSampler]] = {"random": RandomSampler, "tpe": TPESampler}
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


class Turns:
    """Counts the trials of a side; after each block sends its time, and waits until the other side has had its turn."""

    def __init__(self, line: Connection, block: int) -> None:
        self._line = line
        self._block = block
        self._ended = 0
        self._line.recv()
        self._began = time.process_time() - Timed.seconds

    def trial_ended(self) -> None:
        """One more."""
        self._ended += 1
        if self._ended % self._block == 0:
            seconds = time.process_time() - Timed.seconds - self._began
            gc.collect()
            self._line.send((seconds, psutil.Process().memory_info().rss))
            self._line.recv()
            self._began = time.process_time() - Timed.seconds


class TurnsListener(StudyListener):
    """Takes turns during the screening stage, and ends the study after it."""

    class Enough(Exception):  # noqa: N818
        """The screening stage is over."""

    def __init__(self, turns: Turns) -> None:
        self._turns = turns

    def on_stage(self, stage: str, num_runs: int, records: Any) -> None:
        """Ends it."""
        if stage != "screen":
            raise self.Enough

    def on_end(self, run: Run, record: RunRecord) -> None:
        """Counts."""
        self._turns.trial_ended()


def url_of(kind: str, path: Path) -> str:
    """Where a side keeps its study."""
    return "memory" if kind == "memory" else f"{kind}:///{path}"


def ours(folder: Path, num_trials: int, sampler: str, kind: str, line: Connection) -> None:
    """Brings a study to `num_trials` screening trials, and writes its page."""
    definition = StudyDefinition(
        name="scale",
        config=CONFIG,
        space=Space.from_config(SPACE, CONFIG),
        settings=StudySettings(num_trials=num_trials, pruning=Pruning(min_rank_agreement=1.0)),
        folder=folder,
        entry=ENTRY,
        probe=None,
    )
    url, tracker = url_of(kind, folder / "ours.db"), JsonlTracker()
    with ExitStack() as stack:
        console = Console(file=stack.enter_context(Path(os.devnull).open("w")), force_terminal=True)
        listeners = Listeners(
            stack.enter_context(study_display(console, definition, 1)),
            TrackingListener(tracker, definition.name, 900, definition.study_folder),
            StudyRunListener(tracker, definition),
            TurnsListener(Turns(line, num_trials // NUM_BLOCKS)),
        )
        store = stack.enter_context(StudyStore(url))
        executor = stack.enter_context(Timed())
        with suppress(TurnsListener.Enough):
            StudyRunner(definition, store, executor, SAMPLERS[sampler], MedianPruner(), listeners).run()
        began = time.process_time()
        page = write_page(summarise(store, definition.name, definition.study_folder), folder)
        line.send((time.process_time() - began, page.stat().st_size))


def optunas(folder: Path, num_trials: int, sampler: str, kind: str, line: Connection) -> None:
    """Brings Optuna's study to `num_trials` trials."""
    turns = Turns(line, num_trials // NUM_BLOCKS)
    distributions = Space.from_config(SPACE, CONFIG).distributions()
    storage = open_storage(url_of(kind, folder / "optuna.db"))
    study = optuna.create_study(
        storage=storage, study_name="scale", sampler=SAMPLERS[sampler](), pruner=MedianPruner(), direction="maximize"
    )
    for _ in range(num_trials):
        trial = study.ask(distributions)
        curve = Synthetic().curve(trial.number)
        for rung in RUNGS:
            trial.report(curve[rung - 1][1], rung)
            trial.should_prune()
        study.tell(trial, curve[-1][1])
        turns.trial_ended()


def main() -> None:
    """Measures and prints a line per block."""
    total = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    sampler = sys.argv[2] if len(sys.argv) > 2 else "random"
    kind = sys.argv[3] if len(sys.argv) > 3 else "sqlite"
    context, lines, sums, first = multiprocessing.get_context("spawn"), [], [0.0, 0.0], [0.0, 0.0]
    with tempfile.TemporaryDirectory() as name:
        for side in (ours, optunas):
            line, theirs = context.Pipe()
            context.Process(target=side, args=(Path(name), total, sampler, kind, theirs), daemon=True).start()
            lines.append(line)
        for block in range(1, NUM_BLOCKS + 1):
            found = []
            for line in lines:
                line.send(None)
                found.append(line.recv())
            seconds, memory = zip(*found, strict=True)
            first = list(memory) if block == 1 else first
            per_trial = [1000.0 * one / (total // NUM_BLOCKS) for one in seconds]
            grown_for = max(1, total * (block - 1) // NUM_BLOCKS)
            growth = [(memory[side] - first[side]) / 1e3 / grown_for for side in (0, 1)]
            sums = [before + one for before, one in zip(sums, seconds, strict=True)]
            print(
                f"{total * block // NUM_BLOCKS:6d} trials: ours {per_trial[0]:6.1f} ms, Optuna {per_trial[1]:6.1f} ms "
                f"per trial, ratio {seconds[0] / seconds[1]:.2f}; memory {memory[0] / 1e6:.0f} and "
                f"{memory[1] / 1e6:.0f} MB, growing by {growth[0]:.2f} and {growth[1]:.2f} kB per trial",
                flush=True,
            )
        for line in lines:
            line.send(None)
        page_seconds, page_size = lines[0].recv()
    print(f"all: ratio {sums[0] / sums[1]:.2f} ({os.cpu_count()} cores)")
    print(f"page: {page_size / 1e6:.1f} MB in {page_seconds:.1f} s")


if __name__ == "__main__":
    main()
