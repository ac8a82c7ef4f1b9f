"""Cost of measuring: the share of training that goes into signals and decisions at the default period.

python -m tests.benchmarks.adaptation [pytorch|keras] ...

Training goes on as in the published experiments on CartPole (DQN prioritized, 256-256; PPO, 64-64) with mode "advise".
The first 5000 steps, in which everything is compiled, are left out. Seconds are those of the processor.
"""

import importlib
import sys
import time
from collections.abc import Callable
from typing import Any

from note_rl.policy import EpsGreedyQPolicy, SoftmaxPolicy
from note_rl.seeding import seed_everything
from note_rl.settings import Adaptive


class Stopwatch:
    """Adds up the time spent in some methods."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def watch(self, target: Any, name: str) -> None:
        """From now on."""
        method: Callable[..., Any] = getattr(target, name)

        def timed(*arguments: Any) -> Any:
            began = time.process_time()
            try:
                return method(*arguments)
            finally:
                self.seconds += time.process_time() - began

        setattr(target, name, timed)


def dqn(package: str) -> Any:
    """Prioritized, by effective sample sizes and the noise of gradients."""
    agents = importlib.import_module(f"note_rl.agents.{package}")
    optimizers = importlib.import_module(f"note_rl.optimizers.{package}")
    seed_everything(0)
    agent = agents.DQN(hidden_size=(256, 256))
    told = Adaptive(
        mode="advise",
        signals=["priority_ess", "weight_ess", "gradient_noise"],
        parameters={"alpha": {"signals": ["priority_ess"]}, "batch_size": {}, "tau": {}, "window": {}},
    )
    agent.set(
        policy=EpsGreedyQPolicy(0.04),
        PR=True,
        pool_size=100_000,
        batch=64,
        learning_starts=1000,
        train_freq=256,
        gradient_steps=128,
        update_batches=128,
        seed=0,
        adaptive=told,
        max_grad_norm=10.0,
    )
    agent.optimizer = optimizers.adam(agent.param, 2.3e-3)
    return agent


def ppo(package: str) -> Any:
    """By ratios and the noise of gradients."""
    agents = importlib.import_module(f"note_rl.agents.{package}")
    optimizers = importlib.import_module(f"note_rl.optimizers.{package}")
    seed_everything(0)
    agent = agents.PPO()
    told = Adaptive(
        mode="advise",
        signals=["ratio_ess", "kl", "gradient_noise"],
        parameters={"learning_rate": {}, "clip": {}, "num_updates": {}},
    )
    agent.set(
        policy=SoftmaxPolicy(),
        PPO=True,
        rollout_steps=32,
        num_envs=8,
        batch=256,
        num_epochs=20,
        gamma=0.98,
        gae_lambda=0.8,
        seed=0,
        adaptive=told,
        max_grad_norm=0.5,
    )
    agent.optimizer = optimizers.adam(agent.param, 1e-3)
    return agent


def main(packages: list[str]) -> None:
    """Prints one line per framework and agent."""
    for package in packages:
        for make, steps in ((dqn, 20_000), (ppo, 40_000)):
            agent = make(package)
            agent.train(total_steps=5_000, p=0)  # everything is compiled
            watch, adaptation = Stopwatch(), agent._trainer.adaptation
            for name in ("before_update", "after_update"):
                watch.watch(adaptation.measurements, name)
            for name in ("move_to", "end_of_phase"):
                watch.watch(adaptation, name)
            before, began = agent.num_gradient_steps, time.process_time()
            agent.train(total_steps=steps, p=0)
            total = time.process_time() - began
            updates = agent.num_gradient_steps - before
            sys.stdout.write(
                f"{package:8} {make.__name__:4} {total:6.1f} s, {updates} updates: adaptation {watch.seconds:.3f} s, "
                f"{watch.seconds / total:.1%} of training time at a period of {agent.settings.adaptive.period}\n"
            )


if __name__ == "__main__":
    main(sys.argv[1:] or ["pytorch", "keras"])
