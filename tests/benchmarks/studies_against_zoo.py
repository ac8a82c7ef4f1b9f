# ruff: noqa: T201
"""Whole studies against RL Baselines3 Zoo: six configurations of PPO on CartPole, two at a time.

    python tests/benchmarks/studies_against_zoo.py --others PYTHON [--rounds N] [--trainers NAME ...]

Everybody tries the same six: two learning rates, three numbers of epochs, 8 environments, 100,000 steps each, five
evaluations of ten episodes, one thread, nothing pruned. Ours is `tuner tune` up to the end of its screening; the zoo's
is two processes of `python -m rl_zoo3.train --optimize` on one storage, as its documentation advises for several at a
time, in which the six are enqueued. Seconds count from the start of the command, imports and compilation included; with
torch_compiled (`training.jit_compile=true`) the first round compiles, the others find what it has compiled. With sb3
(`agent=sb3_ppo`) our study tunes the same class as the zoo, with sb3_ray over Ray on this machine. The contenders take
turns, and ratios are taken within a round. Where the seconds of ours go is printed, too: before the first trial, in
trials, and in slots that wait. PYTHON is an interpreter that has rl_zoo3 and pandas.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from against_others import ONE_THREAD
from contenders import OURS, REPLAYED

TRAINERS = (*(name for name in OURS if name != REPLAYED), "sb3", "sb3_ray")
LEARNING_RATES, NUM_EPOCHS = (3e-4, 1e-3), (5, 10, 20)
TOTAL_STEPS, EVALUATIONS, EPISODES, AT_A_TIME = 100_000, 5, 10, 2
ENQUEUE = """
import sys, json, optuna
study = optuna.create_study(study_name="six", storage=sys.argv[1], direction="maximize")
for rate, epochs in json.loads(sys.argv[2]):
    study.enqueue_trial({
        "learning_rate": rate, "n_epochs": epochs, "n_steps_pow": 5, "batch_size_pow": 8, "one_minus_gamma": 0.02,
        "one_minus_gae_lambda": 0.05, "ent_coef": 1e-8, "clip_range": 0.2, "max_grad_norm": 0.5, "net_arch": "small",
        "activation_fn": "tanh",
    })
"""
SCORES = """
import sys, json, optuna
trials = optuna.load_study(study_name="six", storage=sys.argv[1]).trials
print(json.dumps([trial.value for trial in trials if trial.value is not None]))
"""


def main() -> None:
    """Measure in turns and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--others", required=True, help="interpreter that has rl_zoo3 and pandas")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--trainers", nargs="+", choices=TRAINERS, default=list(TRAINERS))
    options = parser.parse_args()
    seconds: dict[str, list[float]] = {}
    programs = tempfile.TemporaryDirectory()
    for number in range(options.rounds):
        for contender in (*options.trainers, "zoo"):
            with tempfile.TemporaryDirectory() as folder:
                of_zoo = contender == "zoo"
                took, scores, parts = (
                    (*zoo(options.others, folder), "") if of_zoo else ours(contender, folder, programs.name)
                )
            seconds.setdefault(contender, []).append(took)
            shown = ", ".join(f"{score:.0f}" for score in sorted(scores))
            print(f"round {number + 1}, {contender}: {took:.1f} s{parts}; last evaluations {shown}", flush=True)
    for trainer in options.trainers:
        ratios = sorted(theirs / mine for mine, theirs in zip(seconds[trainer], seconds["zoo"], strict=True))
        median = statistics.median(ratios)
        print(f"{trainer}: {median:.2f} [{ratios[0]:.2f}, {ratios[-1]:.2f}] times as fast as the zoo")


def ours(trainer: str, folder: str, programs: str) -> tuple[float, list[float], str]:
    """Seconds until the six are screened, their last evaluations, and where the seconds went.

    Torch's compiled steps are kept in a folder.
    """
    began = time.time()
    words = [sys.executable, __file__, "--screen", trainer]
    env = {**os.environ, **ONE_THREAD, "NOTE_RL_TORCH_CACHE": programs}
    done = subprocess.run(words, cwd=folder, env=env, capture_output=True, text=True, check=True)
    spans, scores = json.loads(done.stdout.splitlines()[-1])
    first, last = min(start for start, _ in spans), max(end for _, end in spans)
    took = [end - start for start, end in spans]
    idle = AT_A_TIME * (last - first) - sum(took)
    trials = " ".join(f"{one:.1f}" for one in took)
    parts = f", {first - began:.1f} s before the first trial, trials {trials} s, slots waited {idle:.1f} s"
    return last - began, scores, parts


def screen(trainer: str) -> None:
    """The study, in this process; prints when its trials began and ended, and their scores."""
    from tuner.commands.preflight import preflight
    from tuner.commands.tune import tune
    from tuner.study import StudyListener

    starts: dict[int, float] = {}
    spans: list[tuple[float, float]] = []
    scores: list[float] = []

    class Stopwatch(StudyListener):
        """Knows when each screening run began and ended."""

        def on_start(self, run: Any) -> None:
            """Noted each time."""
            starts.setdefault(run.number, time.time())

        def on_end(self, run: Any, record: Any) -> None:
            """Noted each time."""
            if record.stage == "screen":
                spans.append((starts[run.number], time.time()))
                scores.append(record.value)

    overrides = [
        *(_of_sb3() if trainer.startswith("sb3") else _of_note_rl(trainer)),
        *(["executor=ray", "executor.address=null"] if trainer.endswith("_ray") else []),
        *("env=cartpole", "env.num_envs=8", "sampler=grid", f"training.total_steps={TOTAL_STEPS}"),
        *(f"evaluation.num_points={EVALUATIONS}", f"evaluation.num_episodes={EPISODES}"),
        *(f"executor.parallel={AT_A_TIME}", "pruner=none", "warm_start=off"),
        *(f"study.num_trials={len(LEARNING_RATES) * len(NUM_EPOCHS)}", "study.metric=final"),
        *("study.num_race_seeds=0", "study.num_candidates=1", "study.num_select_seeds=1", "study.num_test_seeds=2"),
    ]
    tune(preflight("tune", overrides), overrides, listener=Stopwatch())
    print(json.dumps([spans, scores]))


def _of_note_rl(trainer: str) -> list[str]:
    """PPO of ours, and the six."""
    framework, _, compiled = trainer.partition("_")
    jit = "true" if compiled else "auto"
    return [
        *("agent=ppo", "network=mlp_tanh", "schedule=none", f"backend={framework}", f"training.jit_compile={jit}"),
        *_six("optimizer.learning_rate", "buffer.num_epochs"),
        *("buffer.num_steps=32", "buffer.batch_size=256", "agent.gamma=0.98", "agent.gae_lambda=0.95"),
    ]


def _of_sb3() -> list[str]:
    """PPO of Stable-Baselines3, whose default network is the small one, and the six."""
    return [
        *("agent=sb3_ppo", *_six("agent.learning_rate", "agent.n_epochs")),
        *("agent.n_steps=32", "agent.batch_size=256", "agent.gamma=0.98", "agent.gae_lambda=0.95"),
    ]


def _six(learning_rate: str, num_epochs: str) -> list[str]:
    """A space of nothing else, by the names of two settings."""
    choices = {learning_rate: LEARNING_RATES, num_epochs: NUM_EPOCHS}
    listed = {name: ", ".join(map(str, values)) for name, values in choices.items()}
    return ["space=none", *(f"+space.{name}={{choices: [{values}]}}" for name, values in listed.items())]


def zoo(python: str, folder: str) -> tuple[float, list[float]]:
    """Seconds until both of its processes are done, and the last evaluations."""
    storage = f"sqlite:///{Path(folder, 'zoo.db')}"
    env = {**os.environ, **ONE_THREAD}
    six = json.dumps([(rate, epochs) for rate in LEARNING_RATES for epochs in NUM_EPOCHS])
    subprocess.run([python, "-c", ENQUEUE, storage, six], check=True, env=env, capture_output=True)
    words = [
        *(python, "-m", "rl_zoo3.train", "--optimize-hyperparameters", "--algo", "ppo", "--env", "CartPole-v1"),
        *("-n", str(TOTAL_STEPS), "--n-trials", str(len(LEARNING_RATES) * len(NUM_EPOCHS) // AT_A_TIME)),
        *("--n-evaluations", str(EVALUATIONS), "--eval-episodes", str(EPISODES), "--sampler", "random"),
        *("--pruner", "none", "--storage", storage, "--study-name", "six", "--no-optim-plots"),
        *("--num-threads", "1", "--device", "cpu", "--verbose", "0", "--log-folder"),
    ]
    began = time.time()
    folders = [str(Path(folder, str(number))) for number in range(AT_A_TIME)]
    workers = [
        subprocess.Popen([*words, own], cwd=folder, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        for own in folders
    ]
    errors = [worker.communicate()[1].decode(errors="replace").strip().splitlines() for worker in workers]
    if any(worker.returncode for worker in workers):
        raise SystemExit(f"rl_zoo3 failed: {[lines[-1:] for lines in errors]}")
    took = time.time() - began
    done = subprocess.run([python, "-c", SCORES, storage], check=True, env=env, capture_output=True, text=True)
    return took, json.loads(done.stdout.splitlines()[-1])


if __name__ == "__main__":
    if sys.argv[1:2] == ["--screen"]:
        screen(sys.argv[2])
    else:
        main()
