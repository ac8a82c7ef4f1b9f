# ruff: noqa: T201
"""Atari frames per CPU second of stepping, acting and training, ours and Stable-Baselines3's, in turns on one core.

    python tests/benchmarks/atari.py [PART ...] [--others PYTHON] [--rounds N]

Pong in 8 environments, the network of Mnih et al. 2015 on stacks of four frames, four frames per step. DQN takes 4
gradient steps of 32 transitions every 16 steps, PPO 4 epochs in minibatches of 256 over rollouts of 32 steps, with one
trunk for policy and value. `torch_compiled` trains as PyTorch does in all training that is long, as that of Atari is;
what is timed here is too short for it by itself. Games are stepped together by ALE, as by default; `single` steps them
one by one. Ours are stacked while acting, the other library's while stepping. `--others` is an interpreter that has
stable_baselines3, ale-py and opencv; without them they are left out.
"""

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

from against_others import run_once

CONTENDERS = {
    "step": ("torch", "single", "sb3"),
    "act": ("torch", "keras", "sb3"),
    **dict.fromkeys(("dqn", "ppo"), ("torch", "torch_compiled", "keras", "sb3")),
}
KINDS = {kind for several in CONTENDERS.values() for kind in several}
NUM_ENVS, SKIP = 8, 4
NATURE = [
    {"conv": {"filters": 32, "size": 8, "stride": 4}},
    {"conv": {"filters": 64, "size": 4, "stride": 2}},
    {"conv": {"filters": 64, "size": 3}},
    "flatten",
]
STEPS = {"step": (80, 3200), "act": (80, 1600), "dqn": (320, 512), "ppo": (512, 768)}
"""Environment steps before the clock starts, and timed ones."""


def main() -> None:
    """Measure and print, part after part."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("parts", nargs="*", choices=[[], *STEPS], default=[], metavar="PART", help=", ".join(STEPS))
    parser.add_argument("--others", default=sys.executable, help="interpreter that has stable_baselines3")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    for part in options.parts or STEPS:
        print(f"\n{part}: frames per CPU second, medians", flush=True)
        rates: dict[str, list[float]] = {}
        for _ in range(options.rounds):
            for contender in CONTENDERS[part]:
                interpreter = options.others if contender == "sb3" else sys.executable
                run = run_once(interpreter, contender, part, script=Path(__file__).name)
                if run is not None:
                    rates.setdefault(contender, []).append(run["frames"] / run["seconds"])
        for contender, measured in rates.items():
            print(f"  {contender:<15}{statistics.median(measured):>8,.0f} [{min(measured):,.0f}, {max(measured):,.0f}]")


def measure_one(contender: str, part: str) -> None:
    """The same twice, of which the second time is timed."""
    if contender != "keras":
        import_module("torch").set_num_threads(1)
    take = _theirs(part) if contender == "sb3" else _ours(part, contender)
    warm, timed = STEPS[part]
    take(warm)
    began = time.process_time()  # which others on the machine do not lengthen much
    take(timed)
    print(json.dumps({"frames": timed * SKIP, "seconds": time.process_time() - began}))


def _ours(part: str, contender: str) -> Callable[[int], object]:
    import numpy as np

    from note_rl.collect.evaluation import random_actions
    from note_rl.environments import EnvFactory, VectorEnvironment, training_environments
    from note_rl.environments.training_only import LifeLoss, SignOfReward
    from note_rl.policy import EpsGreedyQPolicy, SoftmaxPolicy
    from note_rl.settings import ReplaySettings, RolloutSettings, Settings

    factory = EnvFactory("note_rl.environments.atari:Atari/pong-v0", training_wrappers=(LifeLoss, SignOfReward))
    envs: Any = training_environments(factory, NUM_ENVS, 1)
    if contender == "single":
        envs = VectorEnvironment([factory() for _ in range(NUM_ENVS)], 1)
    if part == "step":
        choose = random_actions(envs.action_space, 1)
        return lambda steps: [envs.step(choose(envs.obs, None)) for _ in range(steps // NUM_ENVS)]
    package = "keras" if contender == "keras" else "pytorch"
    agents, layered = (import_module(f"note_rl.agents.{package}{sub}") for sub in ("", ".layered"))
    network = partial(layered.layered_network, layers=NATURE, hidden_sizes=[512], shared=part == "ppo")
    agent = (agents.PPO if part == "ppo" else agents.DQN)(env=factory, network=network, frame_stack=4)
    experience: Any = RolloutSettings(num_steps=32, batch_size=256, num_epochs=4, frame_stack=4)
    if part != "ppo":
        rhythm = {"learning_starts": 160, "train_freq": 16, "gradient_steps": 4, "target_update_interval": 250}
        experience = ReplaySettings(capacity=10_000, batch_size=32, frame_stack=4, **rhythm)
    policy = SoftmaxPolicy() if part == "ppo" else EpsGreedyQPolicy(0.05)
    agent.settings = Settings(experience=experience, policy=policy, num_envs=NUM_ENVS, seed=1)
    if part == "act":
        greedy, starts = agent.greedy_in(envs.action_space), np.zeros(NUM_ENVS, np.bool_)
        return lambda steps: [greedy(envs.obs, starts) for _ in range(steps // NUM_ENVS)]
    flat = [one for group in agent.param for one in (group if isinstance(group, list) else [group])]
    optimizer = import_module(f"note_rl.optimizers.{package}").adam(flat, 1e-4)
    jit = True if contender == "torch_compiled" else "auto"

    def learn(steps: int) -> object:
        return agent.train(optimizer=optimizer, total_steps=agent.num_env_steps + steps, jit_compile=jit, p=0)

    return learn


def _theirs(part: str) -> Callable[[int], object]:
    import_module("ale_py")
    algorithms = import_module("stable_baselines3")
    made = import_module("stable_baselines3.common.env_util").make_atari_env("PongNoFrameskip-v4", NUM_ENVS, seed=1)
    envs = import_module("stable_baselines3.common.vec_env").VecFrameStack(made, 4)
    if part == "step":
        envs.reset()
        return lambda steps: [
            envs.step([envs.action_space.sample() for _ in range(NUM_ENVS)]) for _ in range(steps // NUM_ENVS)
        ]
    if part == "ppo":
        model = algorithms.PPO("CnnPolicy", envs, n_steps=32, batch_size=256, n_epochs=4, device="cpu", seed=1)
    else:
        rhythm = {"learning_starts": 160, "train_freq": 16 // NUM_ENVS, "gradient_steps": 4}
        model = algorithms.DQN("CnnPolicy", envs, buffer_size=10_000, batch_size=32, device="cpu", seed=1, **rhythm)
    if part == "act":
        obs = envs.reset()
        return lambda steps: [model.predict(obs, deterministic=True) for _ in range(steps // NUM_ENVS)]
    return lambda steps: model.learn(steps, reset_num_timesteps=False)


if __name__ == "__main__":
    measure_one(*sys.argv[1:3]) if sys.argv[1:2] and sys.argv[1] in KINDS else main()
