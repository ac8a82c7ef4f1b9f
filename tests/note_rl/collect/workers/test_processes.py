"""Worker processes start, are missed when they are killed, and end with the one that trains."""

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from dataclasses import replace
from functools import partial

import psutil
import pytest

from note_rl.collect.agent_recipe import Recipe
from note_rl.collect.policy_runner import PolicyRunner
from note_rl.collect.workers.pool_network import PoolCollector
from note_rl.errors import SettingsError, WorkerError
from note_rl.policy import NoisyPolicy
from note_rl.settings import WorkerSettings
from tests.note_rl.collect.counting import CountingAgent, Dying, Forking, Watched
from tests.note_rl.collect.workers.pool_agents import AHEAD, TURNS, agent, workers_left


def test_a_start_that_is_refused_leaves_no_descriptor_open():
    made = agent(TURNS, mirrored=False)
    made.recipe = Recipe(CountingAgent, (threading.Lock(),), {})
    act = PolicyRunner(made.learner, made.obs_normaliser, False)
    pool = PoolCollector(made, made.settings, NoisyPolicy(), 0)
    before = psutil.Process().num_fds()
    with pytest.raises(SettingsError, match="argument 'env' of CountingAgent"):
        pool.begin(act)
    assert psutil.Process().num_fds() == before


@pytest.mark.parametrize("start_method", ["forkserver", "spawn"])
def test_a_killed_worker_is_missed_though_its_environments_child_holds_the_line(start_method, tmp_path):
    workers = WorkerSettings(processes=2, start_method=start_method)
    made = agent(workers, env=partial(Forking, str(tmp_path / "child")), rollout=3)
    try:
        with pytest.raises(WorkerError, match="was ended by SIGKILL"):
            made.train(total_steps=100)
    finally:
        for pid in (tmp_path / "child").read_text().split():
            os.kill(int(pid), signal.SIGKILL)


@pytest.mark.parametrize("start_method", ["forkserver", "spawn"])
def test_a_killed_worker_ends_training_with_the_name_of_the_signal(start_method):
    made = agent(replace(TURNS, start_method=start_method), env=Dying, rollout=3)
    with pytest.raises(WorkerError, match="was ended by SIGKILL"):
        made.train(total_steps=1000)
    assert workers_left() == []


def test_a_worker_that_is_killed_is_missed_at_once_while_it_collects_and_while_the_agent_learns():
    made = agent(AHEAD, env=lambda: Watched(step_s=30.0), rollout=3)
    killed = []

    def kill():
        while not killed:
            found = [child for child in workers_left() if child.num_threads() == 2 and not child.children()]
            if len(found) >= 2:
                time.sleep(0.3)
                killed.append(time.monotonic())
                found[0].kill()

    thread = threading.Thread(target=kill)
    thread.start()
    with pytest.raises(WorkerError, match="was ended by SIGKILL"):
        made.train(total_steps=1000)
    assert time.monotonic() - killed[0] < 10.0  # a step takes 30 s
    thread.join()
    assert workers_left() == []


def test_paths_to_import_from_need_not_be_text(monkeypatch, tmp_path):
    monkeypatch.setattr(sys, "path", [*sys.path, tmp_path])
    made = agent(TURNS, rollout=3)
    assert made.train(total_steps=36).num_env_steps == 36


SCRIPT = """
    import ctypes, os, sys, time
    import numpy as np
    from tests.note_rl.collect.counting import CountingAgent, Watched, settings
    from note_rl.settings import WorkerSettings

    HERE = sys.argv[0]

    class Slow(Watched):
        def step(self, action):
            if action[0] >= 2.0:
                open(HERE + f".{os.getpid()}", "w").close()
                if sys.argv[1] == "hold":
                    ctypes.PyDLL(None).sleep(60)  # and no other thread runs
                time.sleep(60.0)
            return super().step(action)

    agent = CountingAgent(Watched if sys.argv[1] == "work" else Slow)
    agent.settings = settings(WorkerSettings(processes=2, start_method=sys.argv[2]), rollout=3)
    print(len(agent.train(total_steps=72).returns))
"""


def run_script(tmp_path, *arguments):
    script = tmp_path / "script.py"
    script.write_text(textwrap.dedent(SCRIPT))
    return subprocess.Popen(
        [sys.executable, str(script), *arguments],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def test_a_script_needs_no_guard_and_its_classes_travel(tmp_path):
    process = run_script(tmp_path, "work", "spawn")
    output, errors = process.communicate(timeout=60)
    assert (process.returncode, errors) == (0, "")
    assert int(output) > 4


@pytest.mark.parametrize(
    ("start_method", "way", "what"),
    [
        ("forkserver", "kill", "hang"),
        ("spawn", "kill", "hold"),
        ("forkserver", "interrupt", "hang"),
        ("spawn", "interrupt", "hold"),
    ],
)
def test_workers_end_with_the_process_that_trains(tmp_path, start_method, way, what):
    process = run_script(tmp_path, what, start_method)
    wait_for(lambda: len(list(tmp_path.glob("script.py.*"))) == 2)
    workers = psutil.Process(process.pid).children(recursive=True)
    assert len(workers) == (3 if start_method == "forkserver" else 4)
    if way == "kill":
        process.kill()
    else:
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does
    _, errors = process.communicate(timeout=20)
    _, alive = psutil.wait_procs(workers, timeout=20)
    assert alive == []
    if way == "interrupt":
        assert errors.count("Traceback") == 1
        assert errors.rstrip().endswith("KeyboardInterrupt")


def wait_for(condition, seconds=60.0):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)
