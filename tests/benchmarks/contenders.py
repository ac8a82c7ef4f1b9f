# ruff: noqa: T201
"""One measurement of `against_others.py`, in a process of its own: `python contenders.py CONTENDER CASE`.

Prints a line of JSON: environment steps, gradient steps, seconds and processor seconds of the timed part, the
seconds that the first steps took beyond what as many later ones do (tracing, compilation), and which way our agent
took its gradient steps. The timed part has at least 20,000 gradient steps or takes at least 30 s. Exceptions are A2C,
PPO with an LSTM (8,000), TRPO (12,800), QR-DQN with 170 quantiles (2,560), and others of 10,000 on a fast machine.
"""

import json
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

OURS = {"torch": "auto", "torch_replayed": "auto", "torch_compiled": True, "keras": "auto"}
"""Our contenders, with their `jit_compile`; `auto` is the default, which goes by network, steps to come and machine."""
REPLAYED = "torch_replayed"  # as by default, but nothing is compiled
OTHERS = ("sb3", "sbx")


@dataclass(frozen=True)
class Case:
    """The task that all contenders train.

    Attributes:
        algorithm: DQN, QRDQN, PPO, TD3, SAC, CrossQ, TQC, A2C or TRPO.
        env: Gymnasium id.
        hidden_sizes: Of every network.
        batch_size: Transitions per gradient step; of TRPO, per step of the critic.
        rhythm: Environment steps and gradient steps per phase (off-policy).
        rollout_steps: Steps per environment of each rollout (on-policy); None: off-policy.
        num_epochs: Passes over each rollout (on-policy); of TRPO, those of the critic.
        warm_steps: Environment steps before the clock starts; the first `learning_starts` of them only collect.
        timed_steps: Environment steps that are timed.
        num_envs: Environments stepped together.
        lstm_units: Width of an LSTM before the dense layers; None: there is none.
        num_quantiles: Of each return (QRDQN, TQC).
    """

    algorithm: str
    env: str
    hidden_sizes: tuple[int, ...]
    batch_size: int
    rhythm: tuple[int, int] = (1, 1)
    rollout_steps: int | None = None
    num_epochs: int = 1
    learning_starts: int = 1000
    warm_steps: int = 3000
    timed_steps: int = 20_000
    num_envs: int = 1
    lstm_units: int | None = None
    num_quantiles: int = 0

    @property
    def text(self) -> str:
        """For people."""
        memory = () if self.lstm_units is None else (f"lstm{self.lstm_units}",)
        net, (steps, updates) = "-".join(map(str, (*memory, *self.hidden_sizes))), self.rhythm
        envs = f", {self.num_envs} environments" if self.num_envs > 1 else ""
        rhythm = f"{steps} steps, {updates} updates"
        if self.rollout_steps is not None:
            rhythm = f"rollouts of {self.rollout_steps} steps, epochs: {self.num_epochs}"
        quantiles = f" of {self.num_quantiles} quantiles" if self.num_quantiles else ""
        return f"{self.algorithm}{quantiles} {self.env}, net {net}, batch {self.batch_size}, {rhythm}{envs}"

    @property
    def gradient_steps(self) -> float:
        """In the timed part."""
        if self.rollout_steps is not None:
            return self.timed_steps * self.num_epochs / self.batch_size
        return self.timed_steps * self.rhythm[1] / self.rhythm[0]


CASES = {
    "dqn_published": Case("DQN", "CartPole-v1", (256, 256), 64, (256, 128), timed_steps=40_960),
    "dqn_16": Case("DQN", "CartPole-v1", (64, 64), 64, (16, 16)),
    "dqn_1": Case("DQN", "CartPole-v1", (64, 64), 64, (1, 1)),
    "qrdqn_published": Case("QRDQN", "CartPole-v1", (256, 256), 64, (256, 128), num_quantiles=10),
    "qrdqn_170": Case(
        *("QRDQN", "CartPole-v1", (256, 256), 128, (256, 256)),
        warm_steps=1536,
        timed_steps=2560,
        num_quantiles=170,
    ),
    "ppo": Case(
        *("PPO", "CartPole-v1", (64, 64), 256),
        rollout_steps=32,
        num_epochs=20,
        warm_steps=2560,
        timed_steps=256_000,
        num_envs=8,
    ),
    "ppo_lstm": Case(
        *("PPO", "CartPole-v1", (64,), 256),
        rollout_steps=32,
        num_epochs=20,
        warm_steps=2560,
        timed_steps=102_400,
        num_envs=8,
        lstm_units=64,
    ),
    "a2c": Case("A2C", "CartPole-v1", (64, 64), 40, rollout_steps=5, warm_steps=4000, timed_steps=320_000, num_envs=8),
    "trpo": Case(
        *("TRPO", "CartPole-v1", (64, 64), 512),
        rollout_steps=512,
        num_epochs=20,
        warm_steps=4096,
        timed_steps=327_680,
        num_envs=2,
    ),
    "td3": Case("TD3", "Pendulum-v1", (256, 256), 256, (8, 8), warm_steps=2000, timed_steps=10_000),
    "sac": Case("SAC", "Pendulum-v1", (256, 256), 256, (8, 8), warm_steps=2000, timed_steps=10_000),
    "crossq": Case("CrossQ", "Pendulum-v1", (256, 256), 256, (8, 8), warm_steps=2000, timed_steps=10_000),
    "tqc": Case(
        *("TQC", "Pendulum-v1", (256, 256), 256, (8, 8)),
        warm_steps=2000,
        timed_steps=10_000,
        num_quantiles=25,
    ),
}
LEARNING_RATE, GAMMA, CAPACITY, MAX_GRAD_NORM = 1e-3, 0.99, 50_000, 10.0
TRUST_REGION = {"gae_lambda": 0.98, "cg_damping": 1e-3}
DQNS, IN_CONTRIB = ("DQN", "QRDQN"), {"CrossQ", "QRDQN", "TQC", "TRPO"}
RMSPROP = {"A2C"}  # the others train with Adam
CLIP = {"DQN": MAX_GRAD_NORM, "PPO": 0.5, "A2C": 0.5}


def main(contender: str, name: str) -> None:
    """Train twice as one would train once, timing the second part."""
    case = CASES[name]
    learn, way = _ours(case, contender) if contender in OURS else (_theirs(case, contender), lambda: "")
    began = time.perf_counter()
    learn(case.warm_steps)
    warm_s = time.perf_counter() - began
    began, cpu_began = time.perf_counter(), time.process_time()
    learn(case.timed_steps)
    seconds, cpu_s = time.perf_counter() - began, time.process_time() - cpu_began
    only_collected = 0 if case.rollout_steps is not None else case.learning_starts
    usual_s = seconds * (case.warm_steps - only_collected) / case.timed_steps
    measured = {"env_steps": case.timed_steps, "gradient_steps": case.gradient_steps, "way": way()}
    print(json.dumps({**measured, "seconds": seconds, "cpu_s": cpu_s, "compile_s": max(warm_s - usual_s, 0.0)}))


def _ours(case: Case, contender: str) -> tuple[Callable[..., object], Callable[[], str]]:
    """Trains our agent for some more environment steps (with callbacks); and says how its gradient steps are taken."""
    from importlib import import_module

    from note_rl.settings import Settings

    package = "keras" if contender == "keras" else "pytorch"
    agents, optimizers = (import_module(f"note_rl.{room}.{package}") for room in ("agents", "optimizers"))
    if package == "pytorch":
        import_module("torch").set_num_threads(1)
    given: dict[str, Any] = {"env": case.env, "gamma": GAMMA}
    if case.lstm_units is None:
        given["hidden_size"] = case.hidden_sizes
    else:
        network = import_module(f"note_rl.agents.{package}.recurrent").recurrent_network
        shape = {"units": case.lstm_units, "hidden_sizes": (), "head_sizes": case.hidden_sizes}
        given["network"] = partial(network, **shape)
    if case.algorithm == "CrossQ":
        given["critic_hidden_size"] = case.hidden_sizes
    if case.algorithm == "PPO":
        given["gae_lambda"] = 0.8
    if case.algorithm == "QRDQN":
        given |= {"values": "quantiles", "num_quantiles": case.num_quantiles}
    if case.algorithm == "TQC":
        given["num_quantiles"] = case.num_quantiles
    if case.algorithm == "TRPO":
        given |= {"critic_iterations": case.num_epochs, "critic_batch_size": case.batch_size, **TRUST_REGION}
    agent = getattr(agents, {"QRDQN": "DQN"}.get(case.algorithm, case.algorithm))(**given)
    agent.settings = Settings(
        experience=_our_experience(case),
        policy=_our_policy(case.algorithm) or agent.default_policy(),
        num_envs=case.num_envs,
        seed=1,
        max_grad_norm=CLIP.get(case.algorithm),
    )
    if case.algorithm in RMSPROP:
        make = partial(optimizers.rmsprop, learning_rate=LEARNING_RATE, epsilon=1e-5)
    else:
        make = partial(optimizers.adam, learning_rate=LEARNING_RATE)
    several = isinstance(agent.param[0], list) and case.rollout_steps is None
    optimizer = [make(group) for group in agent.param] if several else make(agent.param)
    jit = _jit_compile(contender)

    def learn(steps: int, callbacks: Sequence[Any] = ()) -> object:
        total = agent.num_env_steps + steps
        return agent.train(optimizer=optimizer, total_steps=total, jit_compile=jit, p=0, callbacks=list(callbacks))

    return learn, lambda: str(agent.how_steps_are_taken())


def _jit_compile(contender: str) -> Any:
    """The setting of one of our contenders."""
    if contender == REPLAYED:
        from note_rl.learners.pytorch.step_graph import choice

        choice.why_not_compiled = lambda *_: "nothing is compiled"
    return OURS[contender]


def _our_experience(case: Case) -> Any:
    """Where our agent learns from."""
    from note_rl.settings import ReplaySettings, RolloutSettings

    if case.algorithm == "TRPO":  # its critic makes the minibatches
        return RolloutSettings(num_steps=case.rollout_steps, batch_size="rollout", num_epochs=1)
    if case.rollout_steps is not None:
        return RolloutSettings(num_steps=case.rollout_steps, batch_size=case.batch_size, num_epochs=case.num_epochs)
    return ReplaySettings(
        capacity=CAPACITY,
        batch_size=case.batch_size,
        learning_starts=case.learning_starts,
        train_freq=case.rhythm[0],
        gradient_steps=case.rhythm[1],
        target_update_interval={**dict.fromkeys(DQNS, case.rhythm[1]), "TD3": 2, "CrossQ": 3}.get(case.algorithm, 1),
    )


def _our_policy(algorithm: str) -> Any:
    """How our agent explores; None: as it does by itself."""
    from note_rl.policy import EpsGreedyQPolicy, NoisyPolicy
    from note_rl.policy.noise import GaussianWhiteNoiseProcess

    if algorithm in DQNS:
        return EpsGreedyQPolicy(0.05)
    return NoisyPolicy(GaussianWhiteNoiseProcess(0.1)) if algorithm == "TD3" else None


def _theirs(case: Case, library: str) -> Callable[[int], object]:
    """Trains the same agent of another library for some more environment steps."""
    import warnings
    from importlib import import_module

    warnings.filterwarnings("ignore")
    package = {"sb3": "stable_baselines3", "sbx": "sbx"}[library]
    recurrent = case.lstm_units is not None
    contrib = library == "sb3" and (recurrent or case.algorithm in IN_CONTRIB)
    module = import_module("sb3_contrib" if contrib else package)
    import_module("torch").set_num_threads(1)
    vec_env = import_module("stable_baselines3.common.env_util").make_vec_env(case.env, case.num_envs, seed=1)
    given = _their_rollouts(case) if case.rollout_steps is not None else _their_replay(case, library)
    given |= {"learning_rate": LEARNING_RATE, "gamma": GAMMA, "seed": 1}
    given["policy_kwargs"] = {"net_arch": list(case.hidden_sizes)}
    if case.num_quantiles:
        given["policy_kwargs"]["n_quantiles"] = case.num_quantiles
    if library == "sb3":
        given["device"] = "cpu"
    if recurrent:
        given["policy_kwargs"]["lstm_hidden_size"] = case.lstm_units
        model = module.RecurrentPPO("MlpLstmPolicy", vec_env, **given)
    else:
        model = getattr(module, case.algorithm)("MlpPolicy", vec_env, **given)
    return lambda steps: model.learn(steps, reset_num_timesteps=False)


def _their_rollouts(case: Case) -> dict[str, Any]:
    """Their arguments of what learns from rollouts."""
    given: dict[str, Any] = {"n_steps": case.rollout_steps}
    if case.algorithm == "A2C":
        return {**given, "ent_coef": 0.01}
    if case.algorithm == "TRPO":
        return {**given, "batch_size": case.batch_size, "n_critic_updates": case.num_epochs, **TRUST_REGION}
    epochs = {"batch_size": case.batch_size, "n_epochs": case.num_epochs}
    return {**given, **epochs, "gae_lambda": 0.8, "max_grad_norm": 0.5}


def _their_replay(case: Case, library: str) -> dict[str, Any]:
    """Their arguments of what learns from a pool."""
    from importlib import import_module

    given: dict[str, Any] = {"batch_size": case.batch_size, "buffer_size": CAPACITY}
    given |= {"learning_starts": case.learning_starts, "train_freq": case.rhythm[0], "gradient_steps": case.rhythm[1]}
    if case.algorithm in DQNS:
        given |= {"target_update_interval": max(case.rhythm[0], 10), "exploration_fraction": 1e-6}
        given |= {"exploration_final_eps": 0.05}
    if case.algorithm == "DQN" and library == "sb3":
        given["max_grad_norm"] = MAX_GRAD_NORM
    if case.algorithm == "TD3":
        noise = import_module("stable_baselines3.common.noise").NormalActionNoise
        numpy = import_module("numpy")
        given["action_noise"] = noise(numpy.zeros(1), 0.1 * numpy.ones(1))
    return given


if __name__ == "__main__":
    main(*sys.argv[1:3])
