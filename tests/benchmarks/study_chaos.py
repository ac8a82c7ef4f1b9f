# ruff: noqa: T201
"""kill -9 of anything at any moment, then the same command: nothing lost, nothing twice, nothing left behind.

Run it as `python -m tests.benchmarks.study_chaos [ROUNDS [TRIALS]]` (50, 200). A study of synthetic trials runs in
processes, four at a time, each with a helper process. In each round one of controller, trial, fork server, warden and
helper is killed at a random moment; after the death of the controller the same command continues the study. After the
rounds it runs to its end, and everything is checked.

`python -m tests.benchmarks.study_chaos real [ROUNDS [CASE ...]]` (100; dqn-torch, sac-keras, ppo-torch-compiled, ...)
does the same with real agents, an equal part of the rounds for each case: Ctrl-C, SIGTERM and `kill -9` of one of
controller, fork server and trial, or of all of them at once. Each study is compared with one that was left alone:
curves, scores and all that was learned have to be equal bit for bit, and no process may be left.

`python -m tests.benchmarks.study_chaos ray [ROUNDS [CASE ...]]` (100; dqn-torch ppo-torch) does so with studies over
two simulated machines of a Ray cluster: `kill -9` of machines, seats, trials and the controller.

`python -m tests.benchmarks.study_chaos functions|sb3|commands [ROUNDS]` (34) does so with the trainers of others:
`kill -9` of one of controller, fork server, trial and program, or of all at once. Runs of functions and programs have
to equal those that were left alone. A run of Stable-Baselines3 does not go on exactly (`tuner guide sb3`): compared are
configurations, seeds, points, and the scores before the first kill. No kill may cost more than an evaluation interval.
"""

import os
import random
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import psutil

from tests.benchmarks import trainer_chaos
from tests.tuner.chaos import KINDS, Chaos, assert_equal
from tests.tuner.executors.ray_cluster import KINDS as MACHINE_KINDS
from tests.tuner.executors.ray_cluster import ClusterChaos, simulated_cluster
from tuner.results.metric import Mixed
from tuner.results.records import RunRecord
from tuner.runs.simulator import Synthetic
from tuner.study import StudyStore, summarise
from tuner.trial.folder import is_locked
from tuner.trial.messages import Outcome

VICTIMS = ("controller", "trial", "forkserver", "warden", "helper")
AT_WORK = 0.9
"""Share of the kills that wait until a trial is at work; the others may come at any time, as while it starts."""
ROOT = Path(__file__).parents[2]


def command(num_trials: int) -> list[str]:
    """The same in every round."""
    study = f"study.name=chaos study.num_trials={num_trials} study.retries=100 study.max_failures=100 pruner=none"
    agent = "agent=synthetic agent.sleep_s=0.1 agent.num_helpers=1 agent.diverge_above=null"
    executor = "executor.parallel=4 executor.limits.silence_s=60 executor.limits.grace_s=5"
    return [sys.executable, "-m", "tuner", "tune", *shlex.split(f"{agent} {executor} {study}")]


def find(controller: psutil.Process, kind: str) -> psutil.Process | None:
    """A random living process of that kind."""
    if kind == "controller":
        return controller
    found: dict[str, list[psutil.Process]] = {"forkserver": [], "warden": [], "trial": [], "helper": []}
    for server in controller.children():
        found["warden" if "tuner.trial.warden" in " ".join(server.cmdline()) else "forkserver"].append(server)
        for trial in server.children():
            found["trial"].append(trial)
            found["helper"] += trial.children()
    return random.choice(found[kind]) if found[kind] else None


def kill_one(process: subprocess.Popen[bytes]) -> str:
    """Kills something; says what, or nothing if there was nothing of that kind."""
    kind = random.choice(VICTIMS)
    try:
        controller = psutil.Process(process.pid)
        if random.random() < AT_WORK and find(controller, "trial") is None:
            return ""
        victim = find(controller, kind)
        if victim is None:
            return ""
        victim.send_signal(signal.SIGKILL)
    except psutil.Error:
        return ""
    return kind


def records(folder: Path) -> tuple[RunRecord, ...]:
    """All runs that the storage knows."""
    if not (folder / "studies.db").exists():
        return ()
    with StudyStore(f"sqlite:///{folder}/studies.db") as store:
        study = store.find("chaos")
        if study is None or "definition" not in study.user_attrs:
            return ()
        return summarise(store, "chaos", folder / "studies" / "chaos").runs


def remember(folder: Path, known: dict[tuple[str, int], RunRecord]) -> None:
    """A run that has finished never changes."""
    for run in records(folder):
        if run.outcome is not None:
            assert known.setdefault((run.stage, run.number), run) == run, f"{run.stage}/{run.number} was changed"


def left_over(folder: Path) -> list[int]:
    """Living processes that work in the folder."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.cwd() == str(folder) and process.pid != os.getpid():
                found.append(process.pid)
        except psutil.Error:
            continue
    return found


def check(folder: Path, known: dict[tuple[str, int], RunRecord], num_trials: int) -> None:
    """Every run once, with the values that its configuration and seed give, and nobody left."""
    runs = records(folder)
    assert [run.number for run in runs if run.stage == "screen"] == list(range(num_trials))
    pairs = Counter((run.stage, run.label, run.seed) for run in runs)
    assert set(pairs.values()) == {1}, "a configuration has run twice on a seed"
    for run in runs:
        assert run.outcome is Outcome.COMPLETE, f"{run.stage}/{run.number}: {run.outcome} {run.reason}"
        assert known.get((run.stage, run.number), run) == run
        arguments = {"entropy_coef": 0.01, **{path.removeprefix("agent."): value for path, value in run.params.items()}}
        curve = Synthetic(**arguments).curve(run.seed)  # type: ignore[arg-type]
        assert run.curve == tuple(curve), f"{run.stage}/{run.number} has another curve"
        assert run.value == Mixed()(curve)
        assert not is_locked(Path(run.folder))
    assert left_over(folder) == [], "processes are left"


COMMON = (
    *("tracker=jsonl", "executor.parallel=2", "network.hidden_sizes=[32]"),
    *("study.num_race_seeds=0", "study.num_candidates=2", "study.num_select_seeds=1", "study.num_test_seeds=1"),
    *("study.retries=1000", "study.max_failures=1000"),
)
SEARCH = ("sampler=random", "pruner=none", "study.num_trials=12")
REAL = {
    "dqn": (*SEARCH, "agent=dqn", "training.total_steps=5000", "buffer.learning_starts=300"),
    "ppo": (*SEARCH, "agent=ppo", "training.total_steps=6000", "env.num_envs=4"),
    "sac": (*SEARCH, "agent=sac", "env=pendulum", "training.total_steps=2000", "buffer.learning_starts=300"),
    "population": (
        *("study=pbt", "agent=dqn", "training.total_steps=8000", "buffer.learning_starts=300"),
        *("evaluation.num_points=4", "study.evolution.generations=4", "study.num_trials=6", "study.num_candidates=1"),
    ),
}


WAYS = {"": (), "-compiled": ("training.jit_compile=true",)}
CASES = [f"{agent}-{backend}{way}" for way in WAYS for agent in REAL for backend in ("torch", "keras")]


def disturb(
    case: str, rounds: int, folder: Path, kinds: Sequence[str] = KINDS, over: Callable[..., Chaos] = Chaos
) -> tuple[Counter[str], int]:
    """Runs a study alone and disturbed and compares; what was done to it, in how many sessions.

    Args:
        case: Of `CASES`.
        rounds: How many disturbances.
        folder: For both.
        kinds: What is done, at random.
        over: Makes the disturbed study.
    """
    agent, backend, *way = case.split("-")
    arguments = (*COMMON, *REAL[agent], f"backend={backend}", *WAYS["".join(f"-{one}" for one in way)])
    alone = Chaos(folder / f"{case}-alone", arguments)
    alone.run()
    seed = CASES.index(case)
    waiting, counted, num_sessions = random.Random(seed).choices(kinds, k=rounds), Counter[str](), 0
    for copy in range(rounds):  # a study that is over before is followed by another
        place = folder / f"{case}-disturbed-{copy}"
        disturbed = over(place, arguments, seed + copy, lambda line: print(f"{case} {line}", flush=True))
        waiting = disturbed.run(waiting, longest_wait_s=3.0)
        assert_equal(disturbed, alone)
        counted += disturbed.counted
        num_sessions += disturbed.num_sessions
        print(f"{case}: {len(alone.records())} runs and {len(alone.parameters())} arrays are equal", flush=True)
        if not waiting:
            break
    return counted, num_sessions


def disturb_real_agents(
    rounds: int, cases: Sequence[str], kinds: Sequence[str] = KINDS, over: Callable[..., Chaos] = Chaos
) -> None:
    """Disturbs a study of each and prints what was done; arguments as of `disturb`."""
    counted: Counter[str] = Counter()
    num_sessions, began = 0, time.monotonic()
    with tempfile.TemporaryDirectory() as name:
        for case in cases:
            done, sessions = disturb(case, rounds // len(cases), Path(name), kinds, over)
            counted += done
            num_sessions += sessions
    print(f"{counted.total()} disturbances {dict(counted)} in {num_sessions} sessions of {len(cases)} studies,")
    print(f"{time.monotonic() - began:.0f} s: curves, scores and parameters are bit-equal, no process is left")


def main() -> None:
    """Runs the rounds and prints what was done."""
    if sys.argv[1:2] == ["real"]:
        disturb_real_agents(int((sys.argv[2:] or [100])[0]), sys.argv[3:] or CASES)
        return
    if sys.argv[1:2] == ["ray"]:
        with simulated_cluster() as cluster:
            rounds, cases = int((sys.argv[2:] or [100])[0]), sys.argv[3:] or ["dqn-torch", "ppo-torch"]
            disturb_real_agents(rounds, cases, MACHINE_KINDS, partial(ClusterChaos, cluster))
        return
    if sys.argv[1:] and sys.argv[1] in trainer_chaos.CASES:
        trainer_chaos.disturb_trainers(sys.argv[1], int((sys.argv[2:] or [34])[0]))
        return
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 50
    num_trials = int(sys.argv[2]) if len(sys.argv) > 2 else 200
    random.seed(0)
    killed: Counter[str] = Counter()
    known: dict[tuple[str, int], RunRecord] = {}
    began, num_sessions = time.monotonic(), 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name).resolve()
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        with (folder / "output.txt").open("ab") as output:
            while True:
                process = subprocess.Popen(
                    command(num_trials), cwd=folder, env=environment, stdout=output, stderr=output
                )
                num_sessions += 1
                while process.poll() is None:
                    time.sleep(random.uniform(0.5, 3.0))
                    kind = kill_one(process) if killed.total() < rounds else ""
                    if kind:
                        killed[kind] += 1
                        print(f"{killed.total():3d} {kind}", flush=True)
                    if kind == "controller":
                        process.wait()
                remember(folder, known)
                if process.returncode == 0:
                    break
                assert process.returncode == -signal.SIGKILL, (folder / "output.txt").read_text()[-3000:]
        time.sleep(1.0)
        check(folder, known, num_trials)
    print(f"{dict(killed)} killed in {num_sessions} sessions of {time.monotonic() - began:.0f} s: all is well")
    if killed.total() < rounds:
        print(f"the study was over after {killed.total()} of {rounds} rounds: give it more trials")


if __name__ == "__main__":
    main()
