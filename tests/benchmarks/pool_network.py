# ruff: noqa: T201
"""Gain of worker processes: environment steps per second with and without, alternating A B A B.

Run it as `python tests/benchmarks/pool_network.py [pytorch|keras] [slow] [dqn] [ppo]`, on an idle machine with at least
two cores. Each line gives the median of both, their ratio, and the lowest and highest ratio of neighbouring runs.
Time is counted from the end of the first training phase to the end of the last one, so without starting processes and
compiling; what starting takes is printed apart.

* slow: an environment whose step takes 5 ms; one worker against two, in turn;
* dqn, ppo: CartPole with 8 environments, in one process against two workers in turn, and against two that go on
  collecting while the agent learns.
"""

import importlib
import os
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import gymnasium

from note_rl.policy import EpsGreedyQPolicy, SoftmaxPolicy
from note_rl.seeding import seed_everything
from note_rl.training.callbacks import Callback, Logs

NUM_ROUNDS = 5
STEP_S = 5e-3
IN_PROCESS: dict[str, Any] = {}
IN_TURN = {"pool_network": True, "processes": 2, "parallel_store_and_training": False}
OVERLAPPING = {"pool_network": True, "processes": 2}


class Slow(gymnasium.Wrapper):
    """CartPole on slow hardware."""

    def step(self, action: Any) -> Any:
        """Takes 5 ms."""
        time.sleep(STEP_S)
        return self.env.step(action)


def slow_cartpole() -> gymnasium.Env[Any, Any]:
    """Makes one."""
    return Slow(gymnasium.make("CartPole-v1"))


class Watch(Callback):
    """Notes when each training phase ended."""

    def __init__(self) -> None:
        self.ends: list[tuple[float, float]] = []

    def on_phase_end(self, phase: int, logs: Logs) -> None:
        """Notes time and environment steps."""
        self.ends.append((time.perf_counter(), logs["num_env_steps"]))


def speed(make: Callable[[], tuple[Any, Any]], total_steps: int, how: dict[str, Any]) -> tuple[float, float]:
    """Environment steps per second, and the seconds up to the end of the first phase."""
    agent, optimizer = make()
    watch = Watch()
    began = time.perf_counter()
    agent.train(optimizer=optimizer, total_steps=total_steps, callbacks=[watch], p=0, **how)
    (first, before), (last, after) = watch.ends[0], watch.ends[-1]
    return (after - before) / (last - first), first - began


def compare(what: str, make: Callable[[], tuple[Any, Any]], total_steps: int, ways: dict[str, dict[str, Any]]) -> None:
    """Runs all ways in turns, several times, and prints each against the first."""
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in ways}
    for _ in range(NUM_ROUNDS):
        for name, how in ways.items():
            found[name].append(speed(make, total_steps, how))
    speeds = {name: [one for one, _ in pairs] for name, pairs in found.items()}
    first, *others = ways
    print(f"{what}: {first} {statistics.median(speeds[first]):,.0f} steps/s")
    for name in others:
        ratios = [b / a for a, b in zip(speeds[first], speeds[name], strict=True)]
        start = statistics.median(seconds for _, seconds in found[name])
        print(
            f"  {name}: {statistics.median(speeds[name]):,.0f} steps/s, {statistics.median(ratios):.2f} times as many "
            f"({min(ratios):.2f} to {max(ratios):.2f}); first phase after {start:.1f} s"
        )


def makers(package: str) -> dict[str, Callable[[], tuple[Any, Any]]]:
    """Functions that make the agents, with their optimizers."""
    agents = importlib.import_module(f"note_rl.agents.{package}")
    optimizers = importlib.import_module(f"note_rl.optimizers.{package}")

    def dqn(env: Any, **settings: Any) -> tuple[Any, Any]:
        seed_everything(0)
        agent = agents.DQN(hidden_size=(256, 256), env=env)
        agent.set(policy=EpsGreedyQPolicy(0.1), pool_size=50_000, batch=64, seed=0, **settings)
        return agent, optimizers.adam(agent.param, 2.3e-3)

    def ppo() -> tuple[Any, Any]:
        seed_everything(0)
        agent = agents.PPO(hidden_size=(64, 64), env="CartPole-v1")
        agent.set(policy=SoftmaxPolicy(), PPO=True, rollout_steps=256, num_epochs=4, batch=256, num_envs=8, seed=0)
        return agent, optimizers.adam(agent.param, 3e-4)

    return {
        "slow": lambda: dqn(slow_cartpole, num_envs=4, train_freq=128, num_updates=1),
        "dqn": lambda: dqn("CartPole-v1", num_envs=8, train_freq=256, num_updates=128),
        "ppo": ppo,
    }


def main(arguments: list[str]) -> None:
    """Compares what was asked for, or everything."""
    packages = [name for name in ("pytorch", "keras") if name in arguments] or ["pytorch", "keras"]
    kinds = [name for name in ("slow", "dqn", "ppo") if name in arguments] or ["slow", "dqn", "ppo"]
    for package in packages:
        make = makers(package)
        if "slow" in kinds:
            ways = {f"{number} worker{'s'[: number - 1]}": {**IN_TURN, "processes": number} for number in (1, 2)}
            compare(f"{package}, 5 ms a step", make["slow"], 1024, ways)
        ways = {"one process": IN_PROCESS, "two workers in turn": IN_TURN, "two workers overlapping": OVERLAPPING}
        if "dqn" in kinds:
            compare(f"{package}, DQN CartPole", make["dqn"], 256 * 40, ways)
        if "ppo" in kinds:
            compare(f"{package}, PPO CartPole", make["ppo"], 2048 * 20, ways)


if __name__ == "__main__":
    main(sys.argv[1:])
