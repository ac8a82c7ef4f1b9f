# ruff: noqa: T201
"""How much dearer or cheaper a step has become: two working trees train the same agents, a slice of each in turns.

    python tests/benchmarks/two_trees.py FOLDER [CASE ...] [--backends torch keras] [--slices 16] [--pairs 2]

FOLDER is the root of the earlier tree. The cases are those of `against_others.py`. Both trees are processes on the same
core, with one thread, and their networks and steps are as there. After warming up they train in turns, half a second or
so each. Printed is the processor time of the earlier tree divided by that of this one, slice by slice: median and
quartiles, a line for each pair of processes. Above 1 means: cheaper now. Slices are short, so that a slow phase of the
machine affects both trees alike; ratios of whole runs scatter several times as much.
"""

import argparse
import math
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

_HERE = Path(__file__).resolve().parents[2]
_SECONDS = 0.5
"""Of the processor, for each slice."""


class Trained:
    """One tree's agent in a process of its own.

    Args:
        tree: Root of the working tree.
        name: Of the case.
        backend: Name of the framework as in `against_others.py`.
    """

    def __init__(self, tree: Path, name: str, backend: str) -> None:
        from against_others import ONE_THREAD, on_one_core

        self._process = subprocess.Popen(
            [sys.executable, __file__, "--train", backend, name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env={**os.environ, **ONE_THREAD, "PYTHONPATH": str(tree)},
            preexec_fn=on_one_core,
        )

    def seconds(self, num_steps: int) -> float:
        """Processor time of as many environment steps more; of none as soon as it has warmed up."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(num_steps, file=self._process.stdin, flush=True)
        for line in self._process.stdout:
            if line.startswith("took "):
                return float(line.split()[1])
        raise SystemExit(f"a tree could not train: run {__file__} --train BACKEND CASE there to see why")

    def end(self) -> None:
        """Ends the process."""
        self._process.kill()
        self._process.wait()


def main() -> None:
    """Measures and prints, case after case."""
    from against_others import OURS
    from contenders import CASES

    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("before", type=Path, help="root of the earlier tree")
    parser.add_argument("cases", nargs="*", choices=[[], *CASES], default=[], metavar="CASE", help=", ".join(CASES))
    parser.add_argument("--backends", nargs="+", choices=OURS, default=["torch", "keras"])
    parser.add_argument("--slices", type=int, default=16)
    parser.add_argument("--pairs", type=int, default=2)
    options = parser.parse_args()
    for name in options.cases or CASES:
        print(f"\n{name}: {CASES[name].text}\nearlier tree / this tree, processor time")
        for backend in options.backends:
            for _ in range(options.pairs):
                low, median, high = statistics.quantiles(ratios(options.before, name, backend, options.slices), n=4)
                print(f"  {backend:<9} {median:.3f} [{low:.3f}, {high:.3f}]", flush=True)


def ratios(before: Path, name: str, backend: str, num_slices: int) -> list[float]:
    """Earlier tree divided by this one, of each two slices that follow each other."""
    from contenders import CASES

    earlier, now = (Trained(tree.resolve(), name, backend) for tree in (before, _HERE))
    try:
        for one in (earlier, now):
            one.seconds(0)
        phase = CASES[name].rhythm[0] * (CASES[name].rollout_steps or 1) * CASES[name].num_envs
        some = phase * math.ceil(256 / phase)
        num_steps = some * max(1, round(_SECONDS / earlier.seconds(some)))
        found = []
        for index in range(num_slices):
            pair = (earlier, now) if index % 2 == 0 else (now, earlier)
            taken = {one: one.seconds(num_steps) for one in pair}
            found.append(taken[earlier] / taken[now])
        return found
    finally:
        for one in (earlier, now):
            one.end()


def train(backend: str, name: str) -> None:
    """Warms up, then trains by as many steps as each line says, and prints what they took."""
    import contenders

    case = contenders.CASES[name]
    learn, _ = contenders._ours(case, backend)
    learn(case.warm_steps)
    for line in sys.stdin:
        began = time.process_time()
        if int(line):
            learn(int(line))
        print("took", time.process_time() - began, flush=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--train"]:
        train(*sys.argv[2:])
    else:
        main()
