# ruff: noqa: T201
"""Our agents on a GPU and on one CPU core against Stable-Baselines3 and SBX, and several trials on one GPU.

    python tests/benchmarks/gpu.py [CASE ...] [--seconds N] [--devices cuda cpu] [--contenders torch sb3 sbx]
    python tests/benchmarks/gpu.py share [--seconds N]

Every measurement is a process of its own on one CPU core, with one thread. It trains as if for a million steps, and the
clock starts when 300 updates (images: 100) were taken: what recording and compiling cost is not in it. Measurements
on a GPU take turns, those on the CPU run beside them on other cores. Then 50 updates are profiled: copies between host
and GPU, and calls that start kernels. Images are random bytes 84 x 84 x 4 that cost nothing to make, so that they show
the update and the replay pool. `torch_eager`, `torch_replayed` and `torch_compiled` are ours by slower ways. `share`
runs 1, 2, 4, ... processes of SAC at a time on the same GPU.
"""

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

OURS = ("torch", "torch_eager", "torch_replayed", "torch_compiled")
OTHERS = ("sb3", "sbx")
PACKAGES = {"sb3": "stable_baselines3", "sbx": "sbx"}
TURN = "GPU_BENCHMARK_TURN"  # names a file that is locked by who uses the GPU
NATURE = [
    {"conv": {"filters": 32, "size": 8, "stride": 4}},
    {"conv": {"filters": 64, "size": 4, "stride": 2}},
    {"conv": {"filters": 64, "size": 3}},
    "flatten",
]
TO_COME, NUM_PROFILED, SHARED_BY = 1_000_000, 50, (1, 2, 4, 8)
LIMIT_S = 240  # for one measurement
RATE, GAMMA = 3e-4, 0.99


@dataclass(frozen=True)
class Case:
    """The task that all contenders train: see `against_others.py`; images where there are no hidden sizes."""

    algorithm: str
    env: str
    hidden_sizes: tuple[int, ...]
    batch_size: int
    num_envs: int = 1
    train_freq: int = 1
    rollout_steps: int | None = None
    num_epochs: int = 1
    learning_starts: int = 1000
    warm_updates: int = 300

    @property
    def updates_per_step(self) -> float:
        if self.rollout_steps is None:
            return 1 / self.train_freq
        return self.num_epochs / self.batch_size


CASES = {
    "sac": Case("SAC", "Pendulum-v1", (256, 256), 256),
    "td3": Case("TD3", "Pendulum-v1", (256, 256), 256),
    "ppo": Case("PPO", "CartPole-v1", (64, 64), 256, num_envs=8, rollout_steps=128, num_epochs=10),
    "dqn_image": Case("DQN", "Pixels-v0", (), 32, train_freq=4, warm_updates=100),
    "ppo_image": Case(
        *("PPO", "Pixels-v0", (), 256), num_envs=8, rollout_steps=128, num_epochs=4, learning_starts=0, warm_updates=100
    ),
}


class Pixels(gymnasium.Env[Any, Any]):
    """Frames of random bytes, one of a hundred, in episodes of 200 steps."""

    observation_space = spaces.Box(0, 255, (84, 84, 4), np.uint8)
    action_space = spaces.Discrete(6)
    frames = np.random.default_rng(0).integers(0, 256, (100, 84, 84, 4), dtype=np.uint8)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self._steps = 0
        return self.frames[0], {}

    def step(self, action: int) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self._steps += 1
        return self.frames[int(self.np_random.integers(100))], float(action == 0), self._steps >= 200, False, {}


if "Pixels-v0" not in gymnasium.registry:  # an environment's id names this module, which then runs twice
    gymnasium.register("Pixels-v0", entry_point=Pixels)


class Clock:
    """Times training from some update on, then counts what the GPU is asked for in further ones."""

    def __init__(self, case: Case, seconds: float, profiled: bool) -> None:
        self._case, self._seconds, self._profiled = case, seconds, profiled
        self._begun: tuple[float, float, int, float] | None = None
        self._profiler: Any = None
        self._until = 0.0
        self.measured: dict[str, Any] = {}

    def is_over(self, env_steps: int, updates: float) -> bool:
        """Called now and then; returns whether training may end."""
        now = time.perf_counter()
        if self._profiler is not None:
            if updates < self._until:
                return False
            self._profiler.__exit__(None, None, None)
            self.measured |= counted(self._profiler.events(), updates - self._until + NUM_PROFILED)
            return True
        if self._begun is None:
            if updates >= self._case.warm_updates:
                self._begun = now, time.process_time(), env_steps, updates
            return False
        began, cpu_began, steps_then, updates_then = self._begun
        if now - began < self._seconds:
            return False
        if not self.measured:
            seconds, steps, taken = now - began, env_steps - steps_then, updates - updates_then
            self.measured = {"steps_per_s": steps / seconds, "updates_per_s": taken / seconds, "updates": taken}
            self.measured["cpu_share"] = (time.process_time() - cpu_began) / seconds
        if not self._profiled:
            return True
        torch = import_module("torch")
        activities = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
        self._profiler = torch.profiler.profile(activities=activities)
        self._profiler.__enter__()
        self._until = updates + NUM_PROFILED
        return False


def counted(events: Any, updates: float) -> dict[str, float]:
    """Copies, launches and microseconds of kernels per update."""
    names = [event.name for event in events]
    kinds = {
        "to_gpu": lambda name: name.startswith("Memcpy HtoD"),
        "to_host": lambda name: name.startswith("Memcpy DtoH"),
        "launches": lambda name: name.startswith(("cudaLaunchKernel", "cuLaunchKernel")),
        "graphs": lambda name: name == "cudaGraphLaunch",
    }
    found = {kind: sum(map(is_one, names)) / updates for kind, is_one in kinds.items()}
    on_gpu = [event for event in events if str(event.device_type).endswith("CUDA")]
    return {**found, "gpu_us": sum(event.time_range.elapsed_us() for event in on_gpu) / updates}


def measure_one(contender: str, name: str, device: str, seconds: float) -> None:
    """Trains until the clock says that it is over, and prints a line of JSON."""
    case = CASES[name]
    import_module("torch").set_num_threads(1)
    clock = Clock(case, seconds, device == "cuda" and contender != "sbx" and TURN in os.environ)
    import_module("note_rl.agents.pytorch" if contender in OURS else PACKAGES[contender])
    with turn():
        way = (ours if contender in OURS else theirs)(case, contender, device, clock)
    print(json.dumps({**clock.measured, "way": way}))


@contextlib.contextmanager
def turn() -> Iterator[None]:
    """Waits until no other measurement uses the GPU, where they take turns; what is imported is so by then."""
    with contextlib.ExitStack() as stack:
        if TURN in os.environ:
            import fcntl

            fcntl.flock(stack.enter_context(open(os.environ[TURN], "w")), fcntl.LOCK_EX)
        yield


def ours(case: Case, contender: str, device: str, clock: Clock) -> str:
    """Trains our agent; returns how steps were taken."""
    from note_rl.settings import ReplaySettings, RolloutSettings, Settings
    from note_rl.training.callbacks import LambdaCallback

    agents, optimizers = (import_module(f"note_rl.{room}.pytorch") for room in ("agents", "optimizers"))
    given: dict[str, Any] = {"env": case.env, "gamma": GAMMA, "device": device}
    if case.hidden_sizes:
        given["hidden_size"] = case.hidden_sizes
    else:
        given["env"] = f"{Path(__file__).stem}:{case.env}"
        layered = import_module("note_rl.agents.pytorch.layered").layered_network
        given["network"] = partial(layered, layers=NATURE, hidden_sizes=[512], shared=case.algorithm == "PPO")
    agent = getattr(agents, case.algorithm)(**given)
    if case.rollout_steps is not None:
        experience: Any = RolloutSettings(
            num_steps=case.rollout_steps, batch_size=case.batch_size, num_epochs=case.num_epochs
        )
    else:
        experience = ReplaySettings(
            capacity=20_000,
            batch_size=case.batch_size,
            learning_starts=case.learning_starts,
            train_freq=case.train_freq,
            gradient_steps=1,
            target_update_interval={"DQN": 1000, "TD3": 2}.get(case.algorithm, 1),
        )
    clip = {"DQN": 10.0, "PPO": 0.5}.get(case.algorithm)
    agent.settings = Settings(
        experience=experience, policy=policy_of(agent, case), num_envs=case.num_envs, seed=1, max_grad_norm=clip
    )
    several = isinstance(agent.param[0], list) and case.rollout_steps is None
    optimizer = [optimizers.adam(one, RATE) for one in agent.param] if several else optimizers.adam(agent.param, RATE)
    if contender == "torch_replayed":
        room = import_module("note_rl.learners.pytorch.step_graph.builder")
        room.why_not_captured = lambda *_: "this was asked for"  # type: ignore[attr-defined]

    def look(_: int, logs: Mapping[str, float]) -> None:
        if clock.is_over(int(logs["num_env_steps"]), logs["num_gradient_steps"]):
            agent.stop_training = True

    jit = {"torch_eager": False, "torch_compiled": True}.get(contender, "auto")
    agent.train(
        optimizer=optimizer, total_steps=TO_COME, jit_compile=jit, callbacks=LambdaCallback(on_phase_end=look), p=0
    )
    return str(agent.how_steps_are_taken())


def policy_of(agent: Any, case: Case) -> Any:
    """How our agent explores."""
    from note_rl.policy import EpsGreedyQPolicy, NoisyPolicy
    from note_rl.policy.noise import GaussianWhiteNoiseProcess

    if case.algorithm == "DQN":
        return EpsGreedyQPolicy(0.05)
    return NoisyPolicy(GaussianWhiteNoiseProcess(0.1)) if case.algorithm == "TD3" else agent.default_policy()


def theirs(case: Case, library: str, device: str, clock: Clock) -> str:
    """Trains the same agent of another library."""
    import warnings

    warnings.filterwarnings("ignore")
    package = import_module(PACKAGES[library])
    callbacks = import_module("stable_baselines3.common.callbacks")
    envs = import_module("stable_baselines3.common.env_util").make_vec_env(case.env, case.num_envs, seed=1)
    given: dict[str, Any] = {"learning_rate": RATE, "gamma": GAMMA, "seed": 1, "batch_size": case.batch_size}
    if case.rollout_steps is not None:
        given |= {"n_steps": case.rollout_steps, "n_epochs": case.num_epochs, "max_grad_norm": 0.5}
    else:
        given |= {"buffer_size": 20_000, "learning_starts": case.learning_starts, "train_freq": case.train_freq}
        given["gradient_steps"] = 1
    if case.algorithm == "DQN":
        given |= {"target_update_interval": 1000 * case.train_freq, "exploration_fraction": 1e-6}
        given["exploration_final_eps"] = 0.05
    if case.algorithm == "TD3":
        noise = import_module("stable_baselines3.common.noise").NormalActionNoise
        given["action_noise"] = noise(np.zeros(1), 0.1 * np.ones(1))
    if case.hidden_sizes:
        given["policy_kwargs"] = {"net_arch": list(case.hidden_sizes)}
    if library == "sb3":
        given["device"] = device
    model = getattr(package, case.algorithm)("MlpPolicy" if case.hidden_sizes else "CnnPolicy", envs, **given)

    class Look(callbacks.BaseCallback):  # type: ignore[misc, name-defined]
        def _on_step(self) -> bool:
            steps = self.num_timesteps
            return not clock.is_over(steps, max(steps - case.learning_starts, 0) * case.updates_per_step)

    model.learn(TO_COME, callback=Look())
    return library


@contextlib.contextmanager
def cores(free: list[int]) -> Iterator[int]:
    """Lends a core."""
    core = free.pop()
    try:
        yield core
    finally:
        free.append(core)


def run_once(
    contender: str, case: str, device: str, seconds: float, free: list[int], given: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """One measurement in a process of its own; a reason under `failed` where it cannot be had."""
    with cores(free) as core:
        threads = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
        jax = {"JAX_PLATFORMS": "cpu" if device == "cpu" else "cuda", "XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
        hidden = {"CUDA_VISIBLE_DEVICES": ""} if device == "cpu" else {}
        try:
            done = subprocess.run(
                [sys.executable, __file__, "--one", contender, case, device, str(seconds)],
                capture_output=True,
                text=True,
                check=False,
                timeout=LIMIT_S,
                env={**os.environ, **threads, **jax, **hidden, **(given or {})},
                preexec_fn=lambda: os.sched_setaffinity(0, {core}),
            )
        except subprocess.TimeoutExpired:
            return {"failed": f"more than {LIMIT_S} s"}
    if done.returncode != 0:
        said = "; ".join((done.stderr.strip().splitlines() or ["no word"])[-3:])
        return {"failed": f"exit code {done.returncode}; {said}"}
    measured: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return measured


def print_measurement(case: str, device: str, contender: str, found: Mapping[str, Any]) -> None:
    """Prints one measurement on a line."""
    head = f"{case:<10}{device:<5}{contender:<15}"
    if "failed" in found:
        print(f"{head} left out: {found['failed'][-300:]}", flush=True)
        return
    numbers = "  ".join(f"{name} {value:,.1f}" for name, value in found.items() if name != "way")
    print(f"{head} {numbers}  {found['way']}", flush=True)


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("cases", nargs="*", metavar="CASE", help=f"share, {', '.join(CASES)}")
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--devices", nargs="+", choices=("cuda", "cpu"), default=["cuda", "cpu"])
    parser.add_argument("--contenders", nargs="+", choices=(*OURS, *OTHERS), default=["torch", *OTHERS])
    options = parser.parse_args()
    free = sorted(os.sched_getaffinity(0))
    chosen = options.cases or [*CASES, "share"]
    pairs = [(case, contender) for case in chosen if case != "share" for contender in options.contenders]
    with ThreadPoolExecutor(max(len(free) - 2, 1)) as pool:

        def beside(case: str, contender: str) -> None:
            print_measurement(case, "cpu", contender, run_once(contender, case, "cpu", options.seconds, free))

        if "cpu" in options.devices:
            waiting = [pool.submit(beside, *pair) for pair in pairs]
        if "cuda" in options.devices:
            with tempfile.NamedTemporaryFile() as file, ThreadPoolExecutor(2) as few:
                in_turns = {TURN: file.name}

                def in_turn(case: str, contender: str) -> None:
                    print_measurement(
                        case, "cuda", contender, run_once(contender, case, "cuda", options.seconds, free, in_turns)
                    )

                for one in [few.submit(in_turn, *pair) for pair in pairs]:
                    one.result()
        if "cpu" in options.devices:
            for one in waiting:
                one.result()
    if "share" in chosen:
        share(options.seconds, free)


def share(seconds: float, free: list[int]) -> None:
    """Several processes of SAC at a time."""
    numbers = [number for number in SHARED_BY if number <= len(free)]
    for number in numbers:
        with ThreadPoolExecutor(number) as pool:
            found = list(pool.map(lambda _: run_once("torch", "sac", "cuda", seconds, free), range(number)))
        rates = [one.get("updates_per_s", 0.0) for one in found]
        text = f"{number} processes, {sum(rates):,.0f} updates/s in all, {min(rates):,.0f} the slowest"
        print(f"share: {text}", flush=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--one"]:
        measure_one(sys.argv[2], sys.argv[3], sys.argv[4], float(sys.argv[5]))
    else:
        main()
