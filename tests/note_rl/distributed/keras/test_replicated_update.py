"""Two replicas of a MirroredStrategy come to the numbers of one; see keras_replicas.py."""

import os
import subprocess
import sys

import numpy as np
import pytest

from tests.note_rl.distributed.keras_replicas import CLIP


def came_to(folder, *further):
    path = folder / "found.npz"
    program = [sys.executable, "-m", "tests.note_rl.distributed.keras_replicas", path, *further]
    subprocess.run(program, check=True, env={**os.environ, "CUDA_VISIBLE_DEVICES": "-1", "TF_CPP_MIN_LOG_LEVEL": "3"})
    return np.load(path)


def check_equal(found, name):
    assert found[f"{name} together steps"] == found[f"{name} alone steps"] >= 18
    np.testing.assert_allclose(found[f"{name} together losses"], found[f"{name} alone losses"], rtol=1e-4, atol=1e-5)
    differences = np.abs(found[f"{name} together parameters"] - found[f"{name} alone parameters"])
    assert differences.max() < 1e-5
    np.testing.assert_array_equal(found[f"{name} replica 0"], found[f"{name} replica 1"])
    assert found[f"{name} norm"] > CLIP


def test_two_replicas_take_the_steps_of_one(tmp_path):
    found = came_to(tmp_path)
    check_equal(found, "dqn")
    np.testing.assert_allclose(*found["priorities"], rtol=1e-3)
    outside, foreign, other = found["refusals"]
    assert "the agent was made outside of the strategy: make it within `with strategy.scope():`" in outside
    assert "strategy must be one of tf.distribute" in foreign
    assert "agents do not train under OneDeviceStrategy; use tf.distribute.MirroredStrategy()" in other


@pytest.mark.slow
def test_with_worker_processes_several_optimizers_and_as_configured_runs_that_are_stopped(tmp_path):
    found = came_to(tmp_path, "further")
    check_equal(found, "dqn")
    check_equal(found, "ppo")
    assert len(found["run alone"]) > 500
    np.testing.assert_allclose(found["run shared"], found["run alone"], rtol=0, atol=1e-5)
