"""Two processes under a MultiWorkerMirroredStrategy come to the numbers of one; see keras_workers.py."""

import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import contextmanager

import numpy as np
import pytest


@contextmanager
def started(folder, how):
    """Both workers, which are gone afterwards."""
    servers = [socket.create_server(("127.0.0.1", 0)) for _ in range(2)]
    addresses = [f"localhost:{server.getsockname()[1]}" for server in servers]
    for server in servers:
        server.close()
    quiet = {"CUDA_VISIBLE_DEVICES": "-1", "TF_CPP_MIN_LOG_LEVEL": "3", "TF_NUM_INTRAOP_THREADS": "1"}
    command = [sys.executable, "-m", "tests.note_rl.distributed.keras_workers"]
    processes = [
        subprocess.Popen([*command, str(rank), *addresses, folder, how], env={**os.environ, **quiet})
        for rank in range(2)
    ]
    try:
        yield processes
    finally:
        for process in processes:
            process.kill()
            process.wait()


@pytest.mark.slow
def test_the_manuals_two_workers_take_the_steps_of_one(tmp_path):
    with started(tmp_path, "train") as processes:
        assert [process.wait(300) for process in processes] == [0, 0]
    first, second, alone = (np.load(tmp_path / f"{name}.npz") for name in ("0", "1", "alone"))
    np.testing.assert_array_equal(first["parameters"], second["parameters"])
    np.testing.assert_allclose(first["parameters"], alone["parameters"], rtol=0, atol=1e-5)
    np.testing.assert_allclose(first["losses"], alone["losses"], rtol=1e-4, atol=1e-5)
    assert first["steps"] == second["steps"] == alone["steps"]


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP], ids=["killed", "stopped"])
def test_a_worker_that_is_gone_ends_training(tmp_path, number):
    with started(tmp_path, "wait") as (first, second):
        while not (tmp_path / "training").exists():
            assert first.poll() is None
            time.sleep(0.1)
        second.send_signal(number)
        assert first.wait(60) == 3
    assert (tmp_path / "said").read_text().startswith("rank 1 (process ")
