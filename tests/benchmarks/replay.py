# ruff: noqa: T201
"""How the cost of replay grows with the pool: microseconds per call, from 10k to 10M items.

Run it as `python tests/benchmarks/replay.py [SIZE ...]` on an idle machine; 10M items take 5 GB of memory. All sizes
take turns within a round; printed are medians over rounds, and how many times the largest pool costs what the smallest
does. Batches are of 64; `x 16` is one gather for an update block of 16 gradient steps.
"""

import statistics
import sys
import time
from collections.abc import Callable, Sequence

import numpy as np

from note_rl.replay.buffer import Parts, ReplayBuffer
from note_rl.replay.episodes import EpisodeIndex
from note_rl.replay.hindsight import GoalFunctions, HindsightReader, goal_at_the_end
from note_rl.replay.readers import NStep
from note_rl.replay.samplers import PrioritizedSampler
from note_rl.replay.sum_tree import SumTree
from note_rl.settings.replay_choices import Hindsight, Priority
from note_rl.types import Array, Steps

SIZES = (10_000, 100_000, 1_000_000, 10_000_000)
BATCH = 64
BLOCK = 16
ROUNDS = 30
CALLS = 20
NO_SYNC = np.zeros(1, np.bool_)
NO_SYNCS = np.zeros(BLOCK, np.bool_)


def transitions(number: int, rng: np.random.Generator, goals: bool = False) -> Steps:
    """Episodes of 100 steps in one environment, observations of 4 numbers (of 6, the last two being the goal)."""
    obs = rng.normal(size=(number + 1, 1, 6 if goals else 4)).astype(np.float32)
    ended = (np.arange(1, number + 1) % 100 == 0)[:, None]
    return Steps(
        obs=obs[:-1],
        action=rng.integers(2, size=(number, 1)),
        reward=np.ones((number, 1), np.float32),
        next_obs=obs[1:],
        terminated=ended,
        ended=ended,
        extras={"achieved_goal": obs[1:, :, :2]} if goals else {},
    )


def tree_cases(size: int, rng: np.random.Generator) -> dict[str, Callable[[], object]]:
    """The sum tree alone."""
    tree = SumTree(size)
    tree.fill(rng.random(size))
    slots, values = rng.integers(size, size=BATCH), rng.random(BATCH)

    def sample_and_update() -> None:
        found = tree.find(rng.random(BATCH) * tree.total)
        tree.set(found, values)

    return {
        "sum tree: find 64": lambda: tree.find(rng.random(BATCH) * tree.total),
        "sum tree: set 64": lambda: tree.set(slots, values),
        "sum tree: sample and update 64": sample_and_update,
    }


def pool_cases(size: int, rng: np.random.Generator) -> dict[str, Callable[[], object]]:
    """Full pools of each kind; what is added falls on the oldest."""
    goals = GoalFunctions(reached, goal_at_the_end)
    episodes = EpisodeIndex()
    hindsight = Parts(reader=HindsightReader(Hindsight(), goals, episodes), episodes=episodes, chained=True)
    pools = {
        "uniform": ReplayBuffer(size),
        "8-step returns": ReplayBuffer(size, Parts(reader=NStep(8), chained=True)),
        "prioritized": ReplayBuffer(size, Parts(sampler=PrioritizedSampler(Priority()))),
        "hindsight": ReplayBuffer(size, hindsight),
    }
    for name, pool in pools.items():
        pool.add(transitions(size, rng, goals=name == "hindsight"))
    few = transitions(256, rng)
    td_error = rng.random((1, BATCH)).astype(np.float32)

    def learn() -> None:
        pool = pools["prioritized"]
        minibatch = pool.sample((1, BATCH), 0.99, NO_SYNC, rng)
        pool.update_priorities(minibatch.slots, td_error)

    cases: dict[str, Callable[[], object]] = {
        f"{name}: sample 64": lambda pool=pool: pool.sample((1, BATCH), 0.99, NO_SYNC, rng)  # type: ignore[misc]
        for name, pool in pools.items()
    }
    return {
        **cases,
        "uniform: sample 64 x 16": lambda: pools["uniform"].sample((BLOCK, BATCH), 0.99, NO_SYNCS, rng),
        "prioritized: sample and update 64": learn,
        "uniform: add 256": lambda: pools["uniform"].add(few),
        "prioritized: add 256": lambda: pools["prioritized"].add(few),
    }


def reached(achieved: Array, desired: Array) -> tuple[Array, Array]:
    """Reward 0 near the goal, -1 elsewhere."""
    done = np.linalg.norm(achieved - desired, axis=-1) < 0.05
    return done.astype(np.float32) - 1.0, done


def main(sizes: Sequence[int]) -> None:
    """Measure and print."""
    rng = np.random.default_rng(0)
    sides = [{**tree_cases(size, rng), **pool_cases(size, rng)} for size in sizes]
    found: dict[str, list[list[float]]] = {name: [[] for _ in sizes] for name in sides[0]}
    for _ in range(ROUNDS):
        for name, seconds in found.items():
            for side, of_size in zip(sides, seconds, strict=True):
                began = time.perf_counter()
                for _ in range(CALLS):
                    side[name]()
                of_size.append((time.perf_counter() - began) / CALLS)
    print(f"{'microseconds':<36}" + "".join(f"{size:>12,}" for size in sizes) + "   largest / smallest")
    for name, seconds in found.items():
        medians = [statistics.median(of_size) * 1e6 for of_size in seconds]
        print(f"{name:<36}" + "".join(f"{one:>12.0f}" for one in medians) + f"{medians[-1] / medians[0]:>12.2f}")


if __name__ == "__main__":
    main([int(size) for size in sys.argv[1:]] or SIZES)
