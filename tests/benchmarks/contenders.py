# ruff: noqa: T201
"""One measurement of `against_others.py`, in a process of its own: `python contenders.py CONTENDER CASE`.

Prints a line of JSON: environment steps, gradient steps and seconds of the timed part, and the seconds that the first
steps took beyond what as many later ones do (tracing, compilation).
"""

import json
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

OURS = ("torch", "keras")
OTHERS = ("sb3", "sbx")


@dataclass(frozen=True)
class Case:
    """What everybody trains.

    Attributes:
        algorithm: DQN, PPO, TD3 or SAC.
        env: Gymnasium id.
        hidden_sizes: Of every network.
        batch_size: Transitions per gradient step.
        rhythm: Environment steps and gradient steps per phase (off-policy).
        warm_steps: Environment steps before the clock starts; the first `learning_starts` of them only collect.
        timed_steps: Environment steps that are timed.
        num_envs: Environments stepped together.
    """

    algorithm: str
    env: str
    hidden_sizes: tuple[int, ...]
    batch_size: int
    rhythm: tuple[int, int] = (1, 1)
    learning_starts: int = 1000
    warm_steps: int = 3000
    timed_steps: int = 10_000
    num_envs: int = 1

    @property
    def text(self) -> str:
        """For people."""
        net, (steps, updates) = "-".join(map(str, self.hidden_sizes)), self.rhythm
        envs = f", {self.num_envs} environments" if self.num_envs > 1 else ""
        rhythm = "rollouts of 32 steps, 20 epochs" if self.algorithm == "PPO" else f"{steps} steps, {updates} updates"
        return f"{self.algorithm} {self.env}, net {net}, batch {self.batch_size}, {rhythm}{envs}"

    @property
    def gradient_steps(self) -> float:
        """In the timed part."""
        if self.algorithm == "PPO":
            return self.timed_steps * PPO_EPOCHS / self.batch_size
        return self.timed_steps * self.rhythm[1] / self.rhythm[0]


PPO_EPOCHS, PPO_STEPS = 20, 32
CASES = {
    "dqn_published": Case("DQN", "CartPole-v1", (256, 256), 64, (256, 128)),
    "dqn_16": Case("DQN", "CartPole-v1", (64, 64), 64, (16, 16)),
    "dqn_1": Case("DQN", "CartPole-v1", (64, 64), 64, (1, 1), timed_steps=4000),
    "ppo": Case("PPO", "CartPole-v1", (64, 64), 256, warm_steps=2560, timed_steps=51_200, num_envs=8),
    "td3": Case("TD3", "Pendulum-v1", (256, 256), 256, (8, 8), warm_steps=2000, timed_steps=2000),
    "sac": Case("SAC", "Pendulum-v1", (256, 256), 256, (8, 8), warm_steps=2000, timed_steps=2000),
}
LEARNING_RATE, GAMMA, CAPACITY, MAX_GRAD_NORM = 1e-3, 0.99, 50_000, 10.0


def main(contender: str, name: str) -> None:
    """Train twice as one would train once, timing the second part."""
    case = CASES[name]
    learn = _ours(case, contender) if contender in OURS else _theirs(case, contender)
    began = time.perf_counter()
    learn(case.warm_steps)
    warm_s = time.perf_counter() - began
    began = time.perf_counter()
    learn(case.timed_steps)
    seconds = time.perf_counter() - began
    usual_s = seconds * (case.warm_steps - case.learning_starts) / case.timed_steps
    measured = {"env_steps": case.timed_steps, "gradient_steps": case.gradient_steps, "seconds": seconds}
    print(json.dumps({**measured, "compile_s": max(warm_s - usual_s, 0.0)}))


def _ours(case: Case, backend: str) -> Callable[[int], object]:
    """Trains our agent for some more environment steps."""
    from importlib import import_module

    from note_rl.policy import EpsGreedyQPolicy
    from note_rl.settings import ReplaySettings, RolloutSettings, Settings

    package = "pytorch" if backend == "torch" else "keras"
    agents = import_module(f"note_rl.agents.{package}")
    if backend == "torch":
        import_module("torch").set_num_threads(1)
    given: dict[str, Any] = {"hidden_size": case.hidden_sizes, "env": case.env, "gamma": GAMMA}
    if case.algorithm == "PPO":
        given["gae_lambda"] = 0.8
    agent = getattr(agents, case.algorithm)(**given)
    if case.algorithm == "PPO":
        experience: Any = RolloutSettings(num_steps=PPO_STEPS, batch_size=case.batch_size, num_epochs=PPO_EPOCHS)
    else:
        experience = ReplaySettings(
            capacity=CAPACITY,
            batch_size=case.batch_size,
            learning_starts=case.learning_starts,
            train_freq=case.rhythm[0],
            gradient_steps=case.rhythm[1],
            target_update_interval={"DQN": case.rhythm[1], "TD3": 2}.get(case.algorithm, 1),  # as in TD3
        )
    policy = EpsGreedyQPolicy(0.05) if case.algorithm == "DQN" else agent.default_policy()
    if case.algorithm == "TD3":
        from note_rl.policy import NoisyPolicy
        from note_rl.policy.noise import GaussianWhiteNoiseProcess

        policy = NoisyPolicy(GaussianWhiteNoiseProcess(0.1))
    clip = MAX_GRAD_NORM if case.algorithm == "DQN" else 0.5 if case.algorithm == "PPO" else None
    agent.settings = Settings(experience=experience, policy=policy, num_envs=case.num_envs, seed=1, max_grad_norm=clip)
    adam = import_module(f"note_rl.optimizers.{package}").adam
    groups = agent.param if isinstance(agent.param[0], list) and case.algorithm != "PPO" else [agent.param]
    optimizer: Any = [adam(group, LEARNING_RATE) for group in groups]
    if len(optimizer) == 1:
        flat = [one for group in agent.param for one in group] if case.algorithm == "PPO" else agent.param
        optimizer = adam(flat, LEARNING_RATE)
    return lambda steps: agent.train(optimizer=optimizer, total_steps=agent.num_env_steps + steps, p=0)


def _theirs(case: Case, library: str) -> Callable[[int], object]:
    """Trains the same agent of another library for some more environment steps."""
    import warnings
    from importlib import import_module

    warnings.filterwarnings("ignore")
    module = import_module("stable_baselines3" if library == "sb3" else "sbx")
    import_module("torch").set_num_threads(1)
    vec_env = import_module("stable_baselines3.common.env_util").make_vec_env(case.env, case.num_envs, seed=1)
    given: dict[str, Any] = {"learning_rate": LEARNING_RATE, "gamma": GAMMA, "batch_size": case.batch_size, "seed": 1}
    given["policy_kwargs"] = {"net_arch": list(case.hidden_sizes)}
    if case.algorithm == "PPO":
        given |= {"n_steps": PPO_STEPS, "n_epochs": PPO_EPOCHS, "gae_lambda": 0.8, "max_grad_norm": 0.5}
    else:
        given |= {"buffer_size": CAPACITY, "learning_starts": case.learning_starts}
        given |= {"train_freq": case.rhythm[0], "gradient_steps": case.rhythm[1]}
    if case.algorithm == "DQN":
        given |= {"target_update_interval": max(case.rhythm[0], 10), "exploration_fraction": 1e-6}
        given |= {"exploration_final_eps": 0.05}
    if case.algorithm == "DQN" and library == "sb3":
        given["max_grad_norm"] = MAX_GRAD_NORM
    if case.algorithm == "TD3":
        noise = import_module("stable_baselines3.common.noise").NormalActionNoise
        numpy = import_module("numpy")
        given["action_noise"] = noise(numpy.zeros(1), 0.1 * numpy.ones(1))
    if library == "sb3":
        given["device"] = "cpu"
    model = getattr(module, case.algorithm)("MlpPolicy", vec_env, **given)
    return lambda steps: model.learn(steps, reset_num_timesteps=False)


if __name__ == "__main__":
    main(*sys.argv[1:3])
