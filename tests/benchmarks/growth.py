# ruff: noqa: T201
"""How the cost of DQN on CartPole grows: with its environments, and with its network.

    python tests/benchmarks/growth.py [--backends torch keras] [--rounds N]

Microseconds of the processor per environment step with 1 to 64 environments, at a quarter of an update per step, and
per update with hidden layers of 64-64 to 1024-1024. Every measurement is a process of its own, on one core and with one
thread; all sizes take turns, and medians are printed. `exponent` is how the cost grows from one size to the next: 1 is
as fast as the size does. Of a network that is the number of its weights. How the pool's size counts is in `replay.py`.
"""

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace

NUM_ENVS = (1, 2, 4, 8, 16, 32, 64)
WIDTHS = (64, 128, 256, 512, 1024)
_PHASE = 64
"""Environment steps between updates, so that each environment takes at least one."""
_BATCH = 64


def cost(backend: str, num_envs: int, width: int) -> float:
    """Processor seconds per environment step (`width` 64), else per gradient step."""
    from contenders import CASES, _ours

    updates = _PHASE // 4 if width == WIDTHS[0] else _PHASE
    steps = 16_384 if width == WIDTHS[0] else max(_PHASE * 4, 131_072 // width)
    case = replace(CASES["dqn_16"], num_envs=num_envs, hidden_sizes=(width, width), rhythm=(_PHASE, updates))
    learn, _ = _ours(case, backend)
    learn(case.warm_steps + (-case.warm_steps) % _PHASE)
    began = time.process_time()
    learn(steps)
    return (time.process_time() - began) / steps


def weights(width: int) -> int:
    """Of the network: four numbers in, two out."""
    return 4 * width + width * width + 2 * width


def run_once(backend: str, num_envs: int, width: int) -> float:
    """One measurement, in microseconds."""
    from against_others import ONE_THREAD, on_one_core

    done = subprocess.run(
        [sys.executable, __file__, "--measure", backend, str(num_envs), str(width)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **ONE_THREAD},
        preexec_fn=on_one_core,
    )
    if done.returncode != 0:
        raise SystemExit(done.stderr)
    return 1e6 * float(json.loads(done.stdout.splitlines()[-1]))


def show(title: str, medians: Mapping[int, float], sizes: Sequence[int]) -> None:
    """One line per size."""
    print(f"  {title}")
    former: tuple[int, float] | None = None
    for (shown, value), size in zip(medians.items(), sizes, strict=True):
        grown = "" if former is None else f"{math.log(value / former[1]) / math.log(size / former[0]):9.2f}"
        print(f"    {shown:>6}{value:10.1f}{grown}")
        former = (size, value)


def main() -> None:
    """Measures and prints, one framework after the other."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--backends", nargs="+", choices=("torch", "keras"), default=["torch", "keras"])
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    places = [*((num, WIDTHS[0]) for num in NUM_ENVS), *((1, width) for width in WIDTHS[1:])]
    for backend in options.backends:
        rounds = [{place: run_once(backend, *place) for place in places} for _ in range(options.rounds)]
        medians = {place: statistics.median(one[place] for one in rounds) for place in places}
        print(f"{backend}: size, microseconds, exponent")
        show("environments, per environment step", {num: medians[num, WIDTHS[0]] for num in NUM_ENVS}, NUM_ENVS)
        wide = {width: medians[1, width] for width in WIDTHS[1:]}
        show("width of two hidden layers, per update", wide, [weights(width) for width in wide])


if __name__ == "__main__":
    if sys.argv[1:2] == ["--measure"]:
        print(json.dumps(cost(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))))
    else:
        main()
