# ruff: noqa: T201
"""Returns of agents of Stable-Baselines3 and of sb3-contrib, on environments of our gates.

    python tests/benchmarks/others_learn.py [CASE ...] --others PYTHON [--sbx] [--seeds 1 2 ...] [--episodes 20]
        [--folder DIR]

PYTHON is an interpreter that has RL Baselines3 Zoo (`pip install rl-zoo3 'gymnasium[box2d,mujoco]'`). With --sbx, TQC
and CrossQ are those of SBX (`pip install sbx-rl`), in JAX. Agents train with the zoo's settings, but for two: A2C's
learning rate ends at zero as in our experiment files, where the zoo keeps it constant, and TQC and CrossQ have settings
of `conf/zoo/`, with which a run is shorter. Each seed trains in a process of its own, with one thread. Printed is the
mean return of episodes without exploration after training, of each seed and as interquartile mean, as our experiment
files tell it; each seed is tried from starts of its own. Runs that are in the folder already are not trained again.
"""

import argparse
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from against_others import ONE_THREAD

EVALUATE, EVALUATE_SBX, TRAIN_SBX = "--evaluate", "--evaluate-sbx", "--train-sbx"
OF_SBX = ("crossq", "tqc")


@dataclass(frozen=True)
class Case:
    """A training: an algorithm of the zoo, a Gymnasium id, and settings that are not the zoo's."""

    algorithm: str
    env: str
    settings: tuple[str, ...] = ()
    has_file: bool = False  # in conf/zoo, in place of the zoo's
    of_sbx: bool = False  # the algorithm is that of SBX


_LINEAR = ('learning_rate:"lin_7e-4"',)
CASES = {
    "trpo_cartpole": Case("trpo", "CartPole-v1"),
    "trpo_acrobot": Case("trpo", "Acrobot-v1"),
    "trpo_pendulum": Case("trpo", "Pendulum-v1"),
    "trpo_lunarlander": Case("trpo", "LunarLander-v3"),
    "a2c_cartpole": Case("a2c", "CartPole-v1", _LINEAR),
    "a2c_acrobot": Case("a2c", "Acrobot-v1", _LINEAR),
    "a2c_pendulum": Case("a2c", "Pendulum-v1"),
    "qrdqn_cartpole": Case("qrdqn", "CartPole-v1"),
    "qrdqn_lunarlander": Case("qrdqn", "LunarLander-v3"),
    "ppo_lstm_cartpole": Case("ppo_lstm", "CartPoleNoVel-v1"),
    "ppo_lstm_pendulum": Case("ppo_lstm", "PendulumNoVel-v1"),
    "tqc_pendulum": Case("tqc", "Pendulum-v1", has_file=True),
    "crossq_pendulum": Case("crossq", "Pendulum-v1", has_file=True),
    "tqc_lunarlander": Case("tqc", "LunarLanderContinuous-v3", has_file=True),
    "tqc_hopper": Case("tqc", "Hopper-v5", has_file=True),
    "crossq_lunarlander": Case("crossq", "LunarLanderContinuous-v3", has_file=True),
    "crossq_hopper": Case("crossq", "Hopper-v5", has_file=True),
}
FILES = Path(__file__).resolve().parent / "conf" / "zoo"


def main() -> None:
    """Train and evaluate, case after case."""
    from tuner.results.statistics import iqm  # which the other interpreter does not have

    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("cases", nargs="*", choices=[[], *CASES], default=[], metavar="CASE", help=", ".join(CASES))
    parser.add_argument("--others", required=True, help="interpreter that has rl_zoo3")
    parser.add_argument("--sbx", action="store_true", help="algorithms of SBX, by the same settings")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3, 4, 5])
    parser.add_argument("--episodes", type=int, default=20, help="of each evaluation")
    parser.add_argument("--folder", type=Path, default=Path("others_learn"), help="of the trained agents")
    options = parser.parse_args()
    cases, folder = CASES, options.folder
    if options.sbx:
        cases = {name: replace(case, of_sbx=True) for name, case in CASES.items() if case.algorithm in OF_SBX}
        folder /= "sbx"
    for name in options.cases:
        if name not in cases:
            parser.error(f"{name} trains {CASES[name].algorithm}; --sbx takes cases of {' and '.join(OF_SBX)}")
    for name in options.cases or cases:
        returns = []
        for seed in options.seeds:
            home = train(options.others, cases[name], seed, folder / name / str(seed))
            returns.append(evaluated(options.others, cases[name], home, options.episodes, seed))
            print(f"{name} seed {seed}: {returns[-1]:.1f}", flush=True)
        each = ", ".join(f"{value:.0f}" for value in returns)
        print(f"{name}: {each}; interquartile mean {float(iqm(returns)):.1f}", flush=True)


def run_alone(words: Sequence[str]) -> str:
    """Output of a command that has one thread."""
    done = subprocess.run(words, capture_output=True, text=True, check=False, env={**os.environ, **ONE_THREAD})
    if done.returncode:
        raise SystemExit(f"{' '.join(words)} failed: {done.stderr[-2000:]}")
    return done.stdout


def train(python: str, case: Case, seed: int, folder: Path, *words: str) -> Path:
    """Let the zoo's command train, with further words, unless it did; the folder that holds the agent."""
    home = folder / case.algorithm / f"{case.env}_1"
    if not (home / f"{case.env}.zip").is_file():
        shutil.rmtree(folder / case.algorithm, ignore_errors=True)  # of a run that was stopped: another number follows
        what = ("--algo", case.algorithm, "--env", case.env)
        chosen = ("--hyperparams", *case.settings) if case.settings else ()
        file = ("--conf-file", str(FILES / f"{case.algorithm}.yml")) if case.has_file else ()
        where = ("--seed", str(seed), "--log-folder", str(folder), "--device", "cpu")
        quiet = ("--eval-freq", "-1", "--verbose", "0", "--num-threads", "1")
        program = (__file__, TRAIN_SBX) if case.of_sbx else ("-m", "rl_zoo3.train")
        run_alone([python, *program, *what, *where, *quiet, *file, *chosen, *words])
    return home


def evaluated(python: str, case: Case, home: Path, num_episodes: int, seed: int) -> float:
    """Result of `evaluate`, in a process of that interpreter."""
    words = [case.algorithm, case.env, str(home), str(num_episodes), str(seed)]
    mode = EVALUATE_SBX if case.of_sbx else EVALUATE
    return float(run_alone([python, __file__, mode, *words]).splitlines()[-1])


def use_sbx() -> None:
    """Let the zoo's commands take the algorithms of SBX, under their names."""
    import rl_zoo3
    import sbx

    rl_zoo3.ALGOS.update(crossq=sbx.CrossQ, tqc=sbx.TQC)


def evaluate(algorithm: str, env_id: str, home: Path, num_episodes: int, seed: int) -> float:
    """Mean return of fresh episodes, with the observations normalised as in training where it did."""
    import rl_zoo3.import_envs  # noqa: F401  (it registers environments)
    import torch
    from rl_zoo3 import ALGOS
    from stable_baselines3.common.env_util import make_vec_env
    from stable_baselines3.common.evaluation import evaluate_policy
    from stable_baselines3.common.vec_env import VecEnv, VecNormalize

    torch.set_num_threads(1)
    env: VecEnv = make_vec_env(env_id, 1, seed=10_000 * seed)
    statistics = home / env_id / "vecnormalize.pkl"
    if statistics.is_file():
        normalised = VecNormalize.load(str(statistics), env)
        normalised.training = normalised.norm_reward = False
        env = normalised
    agent = ALGOS[algorithm].load(home / f"{env_id}.zip", device="cpu")
    mean, _ = evaluate_policy(agent, env, n_eval_episodes=num_episodes, deterministic=True)
    return float(mean)


if __name__ == "__main__":
    mode, *rest = sys.argv[1:] or [""]
    if mode in (EVALUATE_SBX, TRAIN_SBX):
        use_sbx()
    if mode in (EVALUATE, EVALUATE_SBX):
        algorithm, env_id, place, num, from_seed = rest
        print(evaluate(algorithm, env_id, Path(place), int(num), int(from_seed)))
    elif mode == TRAIN_SBX:
        from rl_zoo3.train import train as train_in_zoo

        sys.argv[1:] = rest
        train_in_zoo()
    else:
        main()
