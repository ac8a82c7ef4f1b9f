# ruff: noqa: T201
"""How fast experience is collected in this process, against another checkout or with and without a vector of its own.

Run it as `python tests/benchmarks/collecting.py [FOLDER]`, where FOLDER holds another checkout of this project (`git
worktree add FOLDER COMMIT`). CartPole is collected from by a mirrored 64-64 network, each side in a process of its
own, alternating A B A B. Printed are environment steps per second of both and the median, lowest and highest ratio;
then what a step costs in the environment alone, and the ratio of CartPole's own vector implementation to one by one.
"""

import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

ROUNDS = 7
SECONDS = 0.5
CASES = ((1, 256, "EpsGreedyQPolicy"), (8, 32, "EpsGreedyQPolicy"), (1, 256, "SoftmaxPolicy"), (8, 32, "SoftmaxPolicy"))


def network(last: str):
    """Layers that hold the pole up for a while, as episodes of nine steps would show little but resets."""
    rng = np.random.default_rng(0)
    sizes = ((4, 64, "tanh"), (64, 64, "tanh"), (64, 2, last))
    layers = [((rng.normal(size=(a, b)) * 0.01).astype(np.float32), np.zeros(b, np.float32), f) for a, b, f in sizes]
    for kernel, _, _ in layers:
        kernel[0, 0] = 1.0
    layers[0][0][:, 0] = [0.0, 0.0, 4.0, 2.0]
    layers[2][0][0] = [-8.0, 8.0]
    return layers


def collecting_speed(num_envs: int, num_steps: int, policy_name: str) -> float:
    """Environment steps per second; uses only what older checkouts have too."""
    from note_rl import policy
    from note_rl.collect.collector import Collector
    from note_rl.environments import EnvFactory, VectorEnvironment
    from note_rl.learners.numpy_policy import NumpyPolicy

    layers = network("softmax" if policy_name == "SoftmaxPolicy" else "linear")
    act = NumpyPolicy(lambda: layers)
    envs = VectorEnvironment([EnvFactory("CartPole-v1")() for _ in range(num_envs)], seed=0)
    collector = Collector(envs, getattr(policy, policy_name)(), np.random.default_rng(0))
    collector.collect(act, num_steps)
    number, began = 0, time.perf_counter()
    while time.perf_counter() - began < SECONDS:
        number += collector.collect(act, num_steps)[0].num_env_steps
    return number / (time.perf_counter() - began)


def bare_speed() -> float:
    """Environment steps per second of CartPole alone, every episode begun with a seed."""
    from note_rl.environments import EnvFactory

    env = EnvFactory("CartPole-v1")()
    obs, _ = env.reset(seed=0)
    number, began = 0, time.perf_counter()
    while time.perf_counter() - began < SECONDS:
        obs, _, terminated, truncated, _ = env.step(int(2.0 * obs[2] + obs[3] > 0.0))
        number += 1
        if terminated or truncated:
            obs, _ = env.reset(seed=number)
    return number / (time.perf_counter() - began)


def in_a_process(folder: Path) -> list[float]:
    """Speeds of all cases with the code in that folder."""
    environment = {**os.environ, "PYTHONPATH": str(folder), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, __file__, "--measure"]
    return json.loads(subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout)


def compare(other: Path) -> None:
    """Both checkouts, alternating."""
    here = Path(__file__).parents[2]
    pairs = [(in_a_process(here), in_a_process(other)) for _ in range(ROUNDS)]
    for index, (num_envs, _, policy_name) in enumerate(CASES):
        ratios = sorted(ours[index] / theirs[index] for ours, theirs in pairs)
        ours, theirs = (statistics.median(pair[side][index] for pair in pairs) for side in (0, 1))
        print(
            f"{policy_name} E={num_envs}: {ours:8.0f} steps/s here, {theirs:8.0f} there, ratio "
            f"{statistics.median(ratios):.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f})"
        )


def compare_vectors() -> None:
    """CartPole's own vector implementation against one by one, with the same random actions."""
    from note_rl.environments import EnvFactory, VectorEnvironment
    from note_rl.environments.gymnasium_vector import foreign_environments
    from note_rl.environments.own_vectors import SeededCartPole

    rng = np.random.default_rng(0)
    for num_envs in (4, 8, 16, 32, 64):
        ratios = []
        for _ in range(ROUNDS):
            sides = (
                foreign_environments(SeededCartPole(num_envs), seed=0),
                VectorEnvironment([EnvFactory("CartPole-v1")() for _ in range(num_envs)], seed=0),
            )
            seconds = [0.0, 0.0]
            for action in rng.integers(2, size=(300, num_envs)):
                for side, envs in enumerate(sides):
                    began = time.perf_counter()
                    envs.step(action)
                    seconds[side] += time.perf_counter() - began
            ratios.append(seconds[1] / seconds[0])
        ratios.sort()
        print(
            f"own vector of {num_envs}: {statistics.median(ratios):.2f} times as fast as one by one "
            f"({ratios[0]:.2f} to {ratios[-1]:.2f})"
        )


if __name__ == "__main__":
    if sys.argv[1:] == ["--measure"]:
        print(json.dumps([collecting_speed(*case) for case in CASES]))
    else:
        if sys.argv[1:]:
            compare(Path(sys.argv[1]).resolve())
        else:
            for case in CASES:
                print(f"{case[2]} E={case[0]}: {collecting_speed(*case):8.0f} steps/s")
        print(f"the environment alone: {bare_speed():8.0f} steps/s")
        compare_vectors()
