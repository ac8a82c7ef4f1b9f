# ruff: noqa: T201
"""How much of the time two trials at a time are really at work.

Run it as `python tests/benchmarks/study_utilisation.py [SECONDS [TRIALS]]` (5, 20): the whole of `tuner tune` with
synthetic trials that sleep for so long, all stages included. What a trial sleeps is its work; everything else, from the
first import to the last file, counts as idle.
"""

import os
import sys
import tempfile
import time

import tuner

NUM_REPORTS = 10
PARALLEL = 2


def main() -> None:
    """Runs a study and prints the share."""
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 5.0
    num_trials = int(sys.argv[2]) if len(sys.argv) > 2 else 20
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        began = time.monotonic()
        result = tuner.tune(
            [
                "agent=synthetic",
                f"agent.sleep_s={seconds / NUM_REPORTS}",
                "agent.diverge_above=null",
                f"evaluation.num_points={NUM_REPORTS}",
                f"executor.parallel={PARALLEL}",
                f"study.num_trials={num_trials}",
                "pruner=none",
            ]
        )
        wall = time.monotonic() - began
    work = seconds * len(result.summary.runs)
    print(
        f"{len(result.summary.runs)} trials of {seconds:g} s, {PARALLEL} at a time, in {wall:.1f} s: "
        f"{100.0 * work / (PARALLEL * wall):.1f} % at work"
    )


if __name__ == "__main__":
    main()
