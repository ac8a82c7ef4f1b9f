# ruff: noqa: T201
"""How much of the time two trials at a time are really at work.

Run it as `python tests/benchmarks/study_utilisation.py [SECONDS [TRIALS]]` (5, 20): the whole of `tuner tune` with
synthetic trials that sleep for so long, all stages included. What a trial sleeps is its work. Two shares are printed:
of the time from the start of the first trial to the end of the last one, and of the whole command's, from composing to
the last file.
"""

import os
import sys
import tempfile
import time
from typing import Any

from tuner.commands.preflight import preflight
from tuner.commands.tune import tune
from tuner.study import StudyListener

NUM_REPORTS = 10
PARALLEL = 2


class Stopwatch(StudyListener):
    """Knows when the first trial began and the last one ended."""

    began = ended = 0.0

    def on_start(self, run: Any) -> None:
        """Noted once."""
        self.began = self.began or time.monotonic()

    def on_end(self, run: Any, record: Any) -> None:
        """Noted each time."""
        self.ended = time.monotonic()


def main() -> None:
    """Runs a study and prints the shares."""
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 5.0
    num_trials = int(sys.argv[2]) if len(sys.argv) > 2 else 20
    overrides = [
        "agent=synthetic",
        f"agent.sleep_s={seconds / NUM_REPORTS}",
        "agent.diverge_above=null",
        f"evaluation.num_points={NUM_REPORTS}",
        f"executor.parallel={PARALLEL}",
        f"study.num_trials={num_trials}",
        "pruner=none",
    ]
    stopwatch = Stopwatch()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        began = time.monotonic()
        result = tune(preflight("tune", overrides), overrides, listener=stopwatch)
        whole = time.monotonic() - began
    num_runs, trials = len(result.summary.runs), stopwatch.ended - stopwatch.began
    work = 100.0 * seconds * num_runs / PARALLEL
    print(
        f"{num_runs} trials of {seconds:g} s, {PARALLEL} at a time: {work / trials:.1f} % at work in the {trials:.1f} s"
        f" between the first start and the last end, {work / whole:.1f} % in the {whole:.1f} s of the whole command"
    )


if __name__ == "__main__":
    main()
