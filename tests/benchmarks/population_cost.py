# ruff: noqa: T201
"""CPU time of a population, divided by that of as many whole runs.

Run it as `python tests/benchmarks/population_cost.py [--backends NAME ...] [--steps N ...] [--rounds N]`.

The members of `tuner tune study=pbt` (DQN on CartPole, eight members, eight generations) are compared with the first
stage of a study of eight trials that train to their end, one at a time each. Only the learning rate is searched, so
that all runs do equally much work. Processor time is read from the system for the controller, the server from which
trials are forked, and the trials, from the start of the first trial to the end of the stage; so other work on the
machine disturbs little. The two take turns, and the ratio is taken within a round.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from typing import Any

from against_others import ONE_THREAD

MEMBERS = 8
POPULATION = ("study=pbt", "study.num_candidates=1")
WHOLE_RUNS = ("study=quick", "pruner=none", "study.num_race_seeds=0", "study.num_candidates=1", "warm_start=off")


class StageEndedError(Exception):
    """Raised where the measured stage is over."""


def main() -> None:
    """Measures in turns and prints."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--backends", nargs="+", default=["torch", "keras"])
    parser.add_argument("--steps", nargs="+", type=int, default=[20_000, 60_000])
    parser.add_argument("--rounds", type=int, default=1)
    options = parser.parse_args()
    for backend in options.backends:
        for steps in options.steps:
            ratios = []
            for _ in range(options.rounds):
                population, whole = (cpu_seconds(backend, steps, *words) for words in (POPULATION, WHOLE_RUNS))
                ratios.append(population / whole)
                print(f"{backend}, {steps} steps: population {population:.1f} s, whole runs {whole:.1f} s", flush=True)
            shown = " ".join(f"{ratio:.2f}" for ratio in ratios)
            print(f"{backend}, {steps} steps: {statistics.median(ratios):.2f} ({shown})", flush=True)


def cpu_seconds(backend: str, steps: int, *study: str) -> float:
    """Of the first stage of a study, in a process of its own."""
    overrides = [
        *("agent=dqn", "env=cartpole", f"backend={backend}", f"training.total_steps={steps}"),
        *("executor.parallel=1", f"study.num_trials={MEMBERS}", "study.num_select_seeds=1", "study.num_test_seeds=2"),
        *(
            "evaluation.num_points=16",
            "space=none",
            "+space.optimizer.learning_rate={low: 1e-4, high: 1e-2, log: true}",
        ),
        *study,
    ]
    with tempfile.TemporaryDirectory() as folder:
        words = [sys.executable, os.path.abspath(__file__), "--stage", *overrides]
        done = subprocess.run(words, cwd=folder, env={**os.environ, **ONE_THREAD}, capture_output=True, text=True)
    if not done.stdout:
        raise SystemExit(done.stderr)
    return float(json.loads(done.stdout.splitlines()[-1]))


def first_stage(overrides: list[str]) -> None:
    """The study up to the end of its first stage, in this process; prints its processor time."""
    from tuner.commands.preflight import preflight
    from tuner.commands.tune import tune
    from tuner.study import StudyListener

    class Meter(StudyListener):
        """Reads processor time when the first run begins, and when the second stage does."""

        first: str | None = None
        began: float | None = None

        def on_stage(self, stage: str, num_runs: int, records: Any) -> None:
            """The second one ends it."""
            if self.first is not None and stage != self.first:
                assert self.began is not None
                print(json.dumps(processor_time() - self.began), flush=True)
                raise StageEndedError
            self.first = stage

        def on_start(self, run: Any) -> None:
            """Noted once; the server has been asked for a fork by then, and still imports."""
            if self.began is None:
                self.began = 0.0

        def on_event(self, run: Any, event: Any) -> None:
            """The first run's process exists: the server has imported everything."""
            if self.began == 0.0:
                self.began = processor_time()

    try:
        tune(preflight("tune", overrides), overrides, listener=Meter())
    except StageEndedError:
        return


def processor_time() -> float:
    """Of this process and all below it, those included that have ended and been waited for."""
    import psutil

    own = psutil.Process()
    times = [process.cpu_times() for process in own.children(recursive=True)]
    of_children = sum(one.user + one.system + one.children_user + one.children_system for one in times)
    mine = own.cpu_times()
    return float(mine.user + mine.system + of_children)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--stage"]:
        first_stage(sys.argv[2:])
    else:
        main()
