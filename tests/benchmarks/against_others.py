# ruff: noqa: T201
"""Our agents against Stable-Baselines3 and SBX: same algorithm, network, batch, updates, environments and threads.

    python tests/benchmarks/against_others.py [CASE ...] [--others PYTHON] [--rounds N] [--backends torch keras]

Every measurement is a process of its own, on one core where the system can bind it to one (JAX uses several whatever
its settings say), and with one thread in any case. The contenders take turns, round after round, and ratios are taken
within a round, so that a machine that is slow for a while slows everybody. Compilation and the first steps are timed
apart. Where something else keeps the machine busy, look at the ratios by processor seconds. `--others` is an
interpreter that has stable_baselines3, sb3_contrib and sbx (`pip install sb3-contrib sbx-rl`); who is not installed
there, or has no such algorithm, is left out.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from contenders import CASES, OTHERS, OURS

ONE_THREAD = {
    **dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1"),
    **dict.fromkeys(("TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS"), "1"),
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1",
    "TF_CPP_MIN_LOG_LEVEL": "3",
    "CUDA_VISIBLE_DEVICES": "",
}


@dataclass
class Measured:
    """The runs of one contender in one case, one entry per round."""

    env_steps_per_s: list[float] = field(default_factory=list)
    env_steps_per_cpu_s: list[float] = field(default_factory=list)
    gradient_steps_per_s: list[float] = field(default_factory=list)
    compile_s: list[float] = field(default_factory=list)
    way: str = ""


def main() -> None:
    """Measure and print, case after case."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("cases", nargs="*", choices=[[], *CASES], default=[], metavar="CASE", help=", ".join(CASES))
    parser.add_argument("--others", default=sys.executable, help="interpreter that has stable_baselines3 and sbx")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--backends", nargs="+", choices=OURS, default=list(OURS))
    options = parser.parse_args()
    for case in options.cases or CASES:
        measure(case, options.backends, options.others, options.rounds)


def measure(case: str, backends: Sequence[str], others: str, rounds: int) -> None:
    """Let all contenders run a case in turns, and print rates and ratios."""
    print(f"\n{case}: {CASES[case].text}", flush=True)
    interpreters = {**dict.fromkeys(backends, sys.executable), **dict.fromkeys(OTHERS, others)}
    measured: dict[str, Measured] = {}
    for _ in range(rounds):
        for contender, interpreter in list(interpreters.items()):
            run = run_once(interpreter, contender, case)
            if run is None:
                del interpreters[contender]
                continue
            record = measured.setdefault(contender, Measured())
            record.env_steps_per_s.append(run["env_steps"] / run["seconds"])
            record.env_steps_per_cpu_s.append(run["env_steps"] / run["cpu_s"])
            record.gradient_steps_per_s.append(run["gradient_steps"] / run["seconds"])
            record.compile_s.append(run["compile_s"])
            record.way = run["way"]
    for contender, record in measured.items():
        rate, updates = statistics.median(record.env_steps_per_s), statistics.median(record.gradient_steps_per_s)
        compile_s = statistics.median(record.compile_s)
        rates = f"{rate:>9,.0f} env steps/s {updates:>8,.0f} updates/s {compile_s:>6.1f} s to compile"
        print(f"  {contender:<15}{rates}  {record.way}".rstrip())
    for ours in backends:
        for other in OTHERS:
            if ours in measured and other in measured:
                mine, theirs = measured[ours], measured[other]
                wall = _ratio(mine.env_steps_per_s, theirs.env_steps_per_s)
                print(
                    f"  {ours} / {other}: {wall}, by CPU {_ratio(mine.env_steps_per_cpu_s, theirs.env_steps_per_cpu_s)}"
                )


def _ratio(mine: Sequence[float], theirs: Sequence[float]) -> str:
    """Median, least and greatest of the ratios within a round."""
    ratios = sorted(one / other for one, other in zip(mine, theirs, strict=True))
    return f"{statistics.median(ratios):.2f} [{ratios[0]:.2f}, {ratios[-1]:.2f}]"


def run_once(interpreter: str, contender: str, case: str, script: str = "contenders.py") -> dict[str, Any] | None:
    """One measurement, by a script beside this one; None, with the reason printed, where it cannot be had."""
    done = subprocess.run(
        [interpreter, str(Path(__file__).with_name(script)), contender, case],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **ONE_THREAD},
        preexec_fn=on_one_core,
    )
    if done.returncode != 0:
        print(f"  {contender} is left out: {(done.stderr.strip().splitlines() or ['no word'])[-1]}")
        return None
    measured: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return measured


def on_one_core() -> None:
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})


if __name__ == "__main__":
    main()
