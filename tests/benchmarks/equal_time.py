# ruff: noqa: T201
"""The same minutes for everybody: what our study and RL Baselines3 Zoo's search choose, trained anew on fresh seeds.

    python tests/benchmarks/equal_time.py [CASE ...] --others PYTHON [--minutes 6] [--studies 1]
        [--seeds 5001 5002 ...] [--folder DIR]

Both search with as many steps a run, on the same cores, for as long by the clock: `tuner tune study.budget=...`, and
two processes of `python -m rl_zoo3.train --optimize` on one storage, as its documentation advises, each with one thread
and otherwise as it comes; they are interrupted when the time is over. What each has chosen is trained anew by its own
trainer on seeds that had no part in the search, and beside them the settings that the zoo publishes and our
default. A study whose verdict does not find its winner better advises the default, and that counts as its choice.
Printed are mean returns of 20 episodes without exploration after training, and the differences of their interquartile
means with 95 % intervals. PYTHON is an interpreter that has rl_zoo3, pandas and gymnasium[box2d]. What is in the folder
already is not done again.
"""

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from against_others import ONE_THREAD
from others_learn import Case, evaluated, run_alone, train

SEEDS = (5001, 5002, 5003, 5004, 5005)
EPISODES = 20
AT_A_TIME = 2
CREATE = """
import sys, optuna
optuna.create_study(study_name="zoo", storage=sys.argv[1], direction="maximize")
"""
BEST = """
import sys, json, optuna
study = optuna.load_study(study_name="zoo", storage=sys.argv[1])
finished = any(trial.state == optuna.trial.TrialState.COMPLETE for trial in study.trials)
best = [study.best_trial.number - len(study.trials), study.best_value] if finished else None
print(json.dumps([best, len(study.trials)]))
"""


@dataclass(frozen=True)
class Task:
    """Overrides for our run, and the same task for the zoo."""

    ours: tuple[str, ...]
    zoo: Case
    total_steps: int


TASKS = {
    "ppo_pendulum": Task(("agent=ppo_continuous", "env=pendulum"), Case("ppo", "Pendulum-v1"), 50_000),
    "sac_pendulum": Task(("agent=sac", "env=pendulum"), Case("sac", "Pendulum-v1"), 5_000),
    "ppo_acrobot": Task(("agent=ppo", "env=acrobot"), Case("ppo", "Acrobot-v1"), 50_000),
    "dqn_acrobot": Task(("agent=dqn", "env=acrobot"), Case("dqn", "Acrobot-v1"), 50_000),
    "ppo_lunarlander": Task(("agent=ppo", "env=lunarlander"), Case("ppo", "LunarLander-v3"), 100_000),
    "dqn_lunarlander": Task(("agent=dqn", "env=lunarlander"), Case("dqn", "LunarLander-v3"), 50_000),
    "ppo_mountaincar": Task(
        ("agent=ppo_continuous", "env=mountaincar_continuous"), Case("ppo", "MountainCarContinuous-v0"), 50_000
    ),
    "sac_mountaincar": Task(
        ("agent=sac", "env=mountaincar_continuous"), Case("sac", "MountainCarContinuous-v0"), 10_000
    ),
    "ppo_cartpole": Task(("agent=ppo", "env=cartpole"), Case("ppo", "CartPole-v1"), 30_000),
    "dqn_cartpole": Task(("agent=dqn", "env=cartpole"), Case("dqn", "CartPole-v1"), 30_000),
}


def main() -> None:
    """Search, train and print, task after task."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("tasks", nargs="*", choices=[[], *TASKS], default=[], metavar="CASE", help=", ".join(TASKS))
    parser.add_argument("--others", required=True, help="interpreter that has rl_zoo3, pandas and gymnasium[box2d]")
    parser.add_argument("--minutes", type=float, default=6.0)
    parser.add_argument("--studies", type=int, default=1, help="how many searches of each, with seeds 0, 1, ...")
    parser.add_argument("--seeds", type=int, nargs="+", default=SEEDS, help="of the trainings behind the search")
    parser.add_argument("--folder", type=Path, default=Path("equal_time"))
    options = parser.parse_args()
    signal.signal(
        signal.SIGINT, signal.default_int_handler
    )  # a shell's background jobs ignore it, and so would the zoo
    for name in options.tasks or TASKS:
        for seed in range(options.studies):
            compare(name, options, seed)


def compare(name: str, options: argparse.Namespace, seed: int) -> None:
    """One search of each, and what their choices come to."""
    task, others, minutes, seeds = TASKS[name], options.others, options.minutes, options.seeds
    folder = options.folder.absolute() / name
    home = folder / f"{minutes:g}min" / str(seed)
    home.mkdir(parents=True, exist_ok=True)
    print(f"{name}, {task.total_steps:,} steps a run, {minutes:g} minutes, search {seed}", flush=True)
    of_zoo = search_of_zoo(others, task, minutes, seed, home)
    choice = search_of_ours(task, minutes, seed, home)
    returns = {
        "zoo's search": zoo_returns(others, task, home / "zoo-chosen", of_zoo, seeds),
        "our search": our_returns(choice, home / "ours-chosen", seeds),
        "zoo's settings": zoo_returns(others, task, folder / "zoo-published", (), seeds),
        "our default": our_returns(default_of(task), folder / "ours-default", seeds),
    }
    show(returns)


def show(returns: Mapping[str, dict[int, float]]) -> None:
    """Prints returns of each, by seed, and ours minus theirs."""
    from tuner.results.findings import estimate
    from tuner.results.insights.differences import difference_of

    for who, scores in returns.items():
        each = ", ".join(f"{score:.0f}" for score in scores.values())
        print(f"  {who:15} {estimate([*scores.values()])}  ({each})")
    ours = returns["our search"]
    for who in ("zoo's search", "zoo's settings", "our default"):
        print(f"  our search minus {who}: {difference_of(ours, returns[who]).signed}", flush=True)


def search_of_zoo(python: str, task: Task, minutes: float, seed: int, home: Path) -> tuple[str, ...]:
    """Arguments with which the zoo trains what its search has chosen."""
    storage = f"sqlite:///{home / 'zoo.db'}"
    done = home / "zoo-searched"
    if not done.exists():
        (home / "zoo.db").unlink(missing_ok=True)
        run_alone([python, "-c", CREATE, storage])  # two processes that create it at once end with an error
        words = [
            *(python, "-m", "rl_zoo3.train", "--optimize-hyperparameters", "--algo", task.zoo.algorithm),
            *("--env", task.zoo.env, "-n", str(task.total_steps), "--n-trials", "100000", "--storage", storage),
            *("--study-name", "zoo", "--no-optim-plots", "--num-threads", "1", "--device", "cpu", "--verbose", "0"),
        ]
        until = time.monotonic() + 60 * minutes
        workers = [
            subprocess.Popen(
                [*words, "--seed", str(100 * seed + number), "--log-folder", str(home / f"zoo-{number}")],
                cwd=home,
                env={**os.environ, **ONE_THREAD},
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            for number in range(AT_A_TIME)
        ]
        time.sleep(max(until - time.monotonic(), 0.0))
        if any(worker.poll() is not None for worker in workers):
            raise SystemExit("the zoo's search ended before its time was over")
        for worker in workers:
            worker.send_signal(signal.SIGINT)
        for worker in workers:
            worker.communicate()
        done.touch()
    best, trials = json.loads(run_alone([python, "-c", BEST, storage]).splitlines()[-1])
    if best is None:
        print(f"  zoo's search: {trials} trials begun, none finished; its published settings are kept", flush=True)
        return ()
    number, value = best
    print(f"  zoo's search: {trials} trials begun, the best claims {value:.1f}", flush=True)
    # counted from the end, as the zoo takes number 0 for none
    return ("--storage", storage, "--study-name", "zoo", f"--trial-id={number}")


def search_of_ours(task: Task, minutes: float, seed: int, home: Path) -> tuple[str, ...]:
    """Overrides with which we train what our study advises."""
    import tuner
    from tuner.results.records import SCREEN

    os.chdir(home)
    words = [*default_of(task), "study.num_trials=100000", f"seed={seed}"]
    began = time.monotonic()
    tune = [sys.executable, "-m", "tuner", "tune", *words, f"study.budget={minutes:g}min", "study.name=ours"]
    if not (home / "searched.json").exists():
        subprocess.run(tune, check=True, capture_output=True, env={**os.environ, **ONE_THREAD})
        (home / "searched.json").write_text(json.dumps(time.monotonic() - began))
    result = tuner.load("ours")
    difference = result.verdict.difference
    better = difference is not None and difference.is_above_zero
    screened = sum(run.stage == SCREEN for run in result.summary.runs)
    seconds = json.loads((home / "searched.json").read_text())
    advice = f"{result.winner.label}" if better else f"the default ({result.winner.label} is not found better)"
    print(f"  our search: {screened} trials in {seconds:.0f} s of the whole command; it advises {advice}", flush=True)
    return result.overrides if better else default_of(task)


def default_of(task: Task) -> tuple[str, ...]:
    """Overrides with which we train our default."""
    return (*task.ours, f"training.total_steps={task.total_steps}")


def zoo_returns(python: str, task: Task, folder: Path, words: Sequence[str], seeds: Sequence[int]) -> dict[int, float]:
    """Mean returns after training by the zoo, one for each seed."""

    def trained(seed: int) -> float:
        home = train(python, task.zoo, seed, folder / str(seed), "-n", str(task.total_steps), *words)
        return evaluated(python, task.zoo, home, EPISODES, seed)

    return of_each_seed(trained, seeds)


def our_returns(typed: Sequence[str], folder: Path, seeds: Sequence[int]) -> dict[int, float]:
    """Mean returns after training by us, one for each seed."""

    def trained(seed: int) -> float:
        home, done = folder / str(seed), folder / f"{seed}.json"
        if not done.exists():
            words = [*typed, f"seed={seed}", "evaluation.num_points=1", f"evaluation.num_episodes={EPISODES}"]
            shutil.rmtree(home, ignore_errors=True)  # of a run that was stopped
            done.parent.mkdir(parents=True, exist_ok=True)
            printed = run_alone([sys.executable, __file__, TRAIN, str(home), *words, "tracker=jsonl"])
            done.write_text(printed.splitlines()[-1])
        return float(json.loads(done.read_text()))

    return of_each_seed(trained, seeds)


def of_each_seed(trained: Callable[[int], float], seeds: Sequence[int]) -> dict[int, float]:
    """Score of each seed, some of them trained at a time."""
    with ThreadPoolExecutor(AT_A_TIME) as pool:
        return dict(zip(seeds, pool.map(trained, seeds), strict=True))


TRAIN = "--train"


def train_ours(folder: str, *words: str) -> None:
    """One run of ours; prints the mean return at its end."""
    import tuner

    print(json.dumps(tuner.train(words, folder=folder).evaluations[-1].mean_return))


if __name__ == "__main__":
    if sys.argv[1:2] == [TRAIN]:
        train_ours(*sys.argv[2:])
    else:
        main()
