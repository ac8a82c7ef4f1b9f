# ruff: noqa: T201
"""Seconds of `tuner check`, by the clock and of the processor, and whether a sound agent is taken for a broken one.

Run it as `python tests/benchmarks/check_seconds.py [SEEDS] [AGENT ...]` (1, and all agents that can be checked). Each
line is an agent and a seed: seconds by the clock, seconds of the processor, and the last line of the answer. The tasks
run two at a time, so nothing else should run.
"""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence

AGENTS = (
    *("dqn", "double_dqn", "dueling_dqn", "prioritized_dqn", "rainbow", "a2c", "ppo", "trpo", "acer", "sac_discrete"),
    *("r2d2", "a2c_continuous", "ppo_continuous", "trpo_continuous", "ddpg", "td3", "sac", "crossq", "tqc"),
)


def main(seeds: int, agents: Sequence[str]) -> None:
    """Measures and prints."""
    for agent in agents:
        for seed in range(seeds):
            with tempfile.TemporaryDirectory() as folder:
                before, began = _of_children(), time.monotonic()
                words = [sys.executable, "-m", "tuner", "check", agent, f"seed={seed}"]
                answer = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False)
                seconds, worked = time.monotonic() - began, _of_children() - before
            last = (answer.stdout or answer.stderr).strip().splitlines()[-1]
            print(f"{agent} seed {seed}: {seconds:.0f} s, {worked:.0f} CPU s: {last[:60]}", flush=True)


def _of_children() -> float:
    used = os.times()
    return used.children_user + used.children_system


if __name__ == "__main__":
    numbers = [word for word in sys.argv[1:] if word.isdigit()]
    named = [word for word in sys.argv[1:] if not word.isdigit()]
    main(int(numbers[0]) if numbers else 1, named or AGENTS)
