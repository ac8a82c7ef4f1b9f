# ruff: noqa: T201
"""How much dearer or cheaper a step has become: two working trees train the same agents, a slice of each in turns.

    python tests/benchmarks/two_trees.py FOLDER [CASE ...] [--backends torch keras] [--slices 16] [--pairs 2]

FOLDER is the root of the earlier tree. The cases are those of `against_others.py`. Both trees are processes on the same
core, with one thread. After warming up each trains once, for as many steps as are timed there, so that steps are taken
as in a run of that length; a callback holds the run after each half second, while the other tree has its turn. Printed
is the processor time of the earlier tree divided by that of this one, slice by slice: median and quartiles, a line for
each pair of processes. Above 1 means: cheaper now. Slices are short, so that a slow phase of the machine affects both
trees alike; ratios of whole runs scatter several times as much.
"""

import argparse
import math
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
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

    Attributes:
        way: How the gradient steps of the last slice were taken.
    """

    way = ""

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
        """Processor time of as many environment steps more."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(num_steps, file=self._process.stdin, flush=True)
        for line in self._process.stdout:
            if line.startswith("took "):
                _, seconds, self.way = line.rstrip("\n").split(" ", 2)
                return float(seconds)
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
                compare(options.before, name, backend, options.slices)


def compare(before: Path, name: str, backend: str, num_slices: int) -> None:
    """Lets a pair of processes take turns, and prints their ratio."""
    from contenders import CASES

    case = CASES[name]
    earlier, now = (Trained(tree.resolve(), name, backend) for tree in (before, _HERE))
    try:
        phase = case.rhythm[0] * (case.rollout_steps or 1) * case.num_envs
        some = phase * math.ceil(256 / phase)
        for one in (earlier, now, earlier, now):  # at first steps are traced, or recorded
            seconds = one.seconds(some)
        longest = (case.timed_steps - 3 * some) // num_slices
        num_steps = min(longest, some * max(1, round(_SECONDS / seconds))) // phase * phase
        ratios = []
        for index in range(num_slices):
            pair = (earlier, now) if index % 2 == 0 else (now, earlier)
            taken = {one: one.seconds(num_steps) for one in pair}
            ratios.append(taken[earlier] / taken[now])
        low, median, high = statistics.quantiles(ratios, n=4)
        each = 1e6 * taken[now] / num_steps
        print(f"  {backend:<9} {median:.3f} [{low:.3f}, {high:.3f}]  {each:.0f} us per step; {now.way}", flush=True)
        if earlier.way != now.way:
            print(f"            the earlier tree: {earlier.way}", flush=True)
    finally:
        for one in (earlier, now):
            one.end()


class Slices:
    """A callback that trains by as many steps as each line of standard input says, and prints what they took.

    Args:
        way: Says how gradient steps are taken.
    """

    changes_parameters = False

    def __init__(self, way: Callable[[], str]) -> None:
        self._way = way
        self._began: float | None = None
        self._until = 0

    def on_phase_end(self, phase: int, logs: Mapping[str, float]) -> None:
        """Waits for the next line where a slice is over."""
        if self._began is not None:
            if logs["num_env_steps"] < self._until:
                return
            print("took", time.process_time() - self._began, self._way(), flush=True)
        self._until = int(logs["num_env_steps"]) + int(sys.stdin.readline())
        self._began = time.process_time()


def train(backend: str, name: str) -> None:
    """Warms up, and trains once, in slices."""
    import contenders

    case = contenders.CASES[name]
    learn, way = contenders._ours(case, backend)
    learn(case.warm_steps)
    learn(case.timed_steps, [Slices(way)])


if __name__ == "__main__":
    if sys.argv[1:2] == ["--train"]:
        train(*sys.argv[2:])
    else:
        main()
