"""Workers and parameter servers as processes of their own; see keras_served.py."""

import json
import os
import signal
import socket
import subprocess
import sys
import time

import numpy as np
import pytest

from tests.note_rl.distributed.keras_served import CLIP

TASKS = [("chief", 0), ("ps", 0), ("ps", 1), ("worker", 0), ("worker", 1)]


@pytest.fixture
def start(tmp_path):
    """Calling it starts the same program as chief, two parameter servers and two workers."""
    processes = {}

    def all_of_them(how):
        servers = [socket.create_server(("127.0.0.1", 0)) for _ in TASKS]
        addresses = [f"localhost:{server.getsockname()[1]}" for server in servers]
        for server in servers:
            server.close()
        places = list(zip(TASKS, addresses, strict=True))
        cluster = {kind: [to for (other, _), to in places if other == kind] for kind, _ in TASKS}
        quiet = {"CUDA_VISIBLE_DEVICES": "-1", "TF_CPP_MIN_LOG_LEVEL": "3", "TF_NUM_INTRAOP_THREADS": "1"}
        for kind, index in TASKS:
            config = json.dumps({"cluster": cluster, "task": {"type": kind, "index": index}})
            program = [sys.executable, "-m", "tests.note_rl.distributed.keras_served", tmp_path, how]
            processes[kind, index] = subprocess.Popen(program, env={**os.environ, **quiet, "TF_CONFIG": config})
        return processes

    yield all_of_them
    for process in processes.values():
        process.kill()
        process.wait()


@pytest.mark.slow
def test_workers_take_the_steps_of_one_and_end_with_the_chief(start, tmp_path):
    assert {task: process.wait(300) for task, process in start("train").items()} == dict.fromkeys(TASKS, 0)
    with np.load(tmp_path / "found.npz") as file:
        found = dict(file)
    for name in ("one_step_at_a_time", "ppo"):
        np.testing.assert_allclose(
            found[f"{name} served parameters"], found[f"{name} alone parameters"], rtol=0, atol=1e-5
        )
        np.testing.assert_allclose(found[f"{name} served losses"], found[f"{name} alone losses"], rtol=1e-4, atol=1e-5)
        assert found[f"{name} served steps"] == found[f"{name} alone steps"] > 1
        assert found[f"{name} norm"] > CLIP
    several = "several_at_once"
    assert found[f"{several} served steps"] == found[f"{several} alone steps"] > 10
    for name in (several, "ppo"):  # each step is counted, also where two workers count at once
        assert set(found[f"{name} counted"]) == {int(found[f"{name} served steps"])}
    difference = np.abs(found[f"{several} served parameters"] - found[f"{several} alone parameters"]).max()
    assert 0 < difference < 0.05  # of 1e-3 a step
    outside, adapted, alone = found["refusals"]
    assert "the agent was made outside of the strategy" in outside
    assert "adaptive: decisions go by what consecutive steps have measured" in adapted
    assert "TRPO takes its steps by itself" in alone
    assert (tmp_path / "saved").exists()


def until_phase(folder, phase, chief):
    while not (folder / "phase").exists() or int((folder / "phase").read_text() or 0) < phase:
        assert chief.poll() is None
        time.sleep(0.1)


@pytest.mark.slow
def test_a_killed_worker_is_done_without_and_a_killed_parameter_server_ends_training(start, tmp_path):
    processes = start("wait")
    chief = processes["chief", 0]
    until_phase(tmp_path, 8, chief)
    processes["worker", 1].kill()
    until_phase(tmp_path, int((tmp_path / "phase").read_text()) + 30, chief)
    processes["ps", 1].kill()
    assert chief.wait(60) == 3
    assert (tmp_path / "said").read_text().startswith("parameter server 1 (localhost:")
    assert [processes[task].wait(60) for task in (("ps", 0), ("worker", 0))] == [0, 0]


@pytest.mark.slow
def test_a_stopped_worker_ends_training(start, tmp_path):
    processes = start("wait")
    chief = processes["chief", 0]
    until_phase(tmp_path, 8, chief)
    processes["worker", 0].send_signal(signal.SIGSTOP)
    assert chief.wait(60) == 3
    assert "worker 0 (localhost:" in (tmp_path / "said").read_text()
    assert "has not been heard of for" in (tmp_path / "said").read_text()
