"""Two replicas of a MirroredStrategy come to the numbers of one; see keras_replicas.py."""

import os
import subprocess
import sys

import numpy as np
import pytest

from tests.note_rl.learners.keras_replicas import CLIP


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    path = tmp_path_factory.mktemp("replicas") / "found.npz"
    program = [sys.executable, "-m", "tests.note_rl.learners.keras_replicas", path]
    subprocess.run(program, check=True, env={**os.environ, "CUDA_VISIBLE_DEVICES": "-1", "TF_CPP_MIN_LOG_LEVEL": "3"})
    return np.load(path)


@pytest.mark.parametrize("name", ["dqn", "ppo"])
def test_two_replicas_take_the_steps_of_one(found, name):
    assert found[f"{name} together steps"] == found[f"{name} alone steps"] >= 18
    np.testing.assert_allclose(found[f"{name} together losses"], found[f"{name} alone losses"], rtol=1e-4, atol=1e-5)
    differences = np.abs(found[f"{name} together parameters"] - found[f"{name} alone parameters"])
    assert differences.max() < 1e-5
    np.testing.assert_array_equal(found[f"{name} replica 0"], found[f"{name} replica 1"])
    assert found[f"{name} norm"] > CLIP


def test_priorities_are_those_of_one_process(found):
    np.testing.assert_allclose(*found["priorities"], rtol=1e-3)


def test_a_configured_run_is_that_of_one_device_and_goes_on_after_a_stop(found):
    assert len(found["run alone"]) > 500
    np.testing.assert_allclose(found["run shared"], found["run alone"], rtol=0, atol=1e-5)


def test_what_cannot_be_is_refused(found):
    outside, foreign, other = found["refusals"]
    assert "the agent was made outside of the strategy: make it within `with strategy.scope():`" in outside
    assert "strategy must be one of tf.distribute" in foreign
    assert "OneDeviceStrategy is not there yet" in other
