"""Two replicas of a MirroredStrategy come to the numbers of one; see keras_replicas.py."""

import os
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest
import tensorflow as tf

from note_rl.distributed.keras.replicated_update import InReplicas, ReplicatedUpdate
from note_rl.errors import NoteRLError
from tests.note_rl.distributed.keras_replicas import CLIP, dqn


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


def test_means_are_exchanged_at_once_and_keep_shapes_and_types(monkeypatch):
    exchanges = []

    def all_reduce(operation, flat):
        exchanges.append(operation)
        return (flat + tf.range(float(flat.shape[0]))) / 2.0  # of another replica, which has 0, 1, 2, ...

    context = SimpleNamespace(all_reduce=all_reduce)
    monkeypatch.setattr(tf.distribute, "get_replica_context", lambda: context)
    peers = InReplicas(SimpleNamespace(num_replicas_in_sync=2))
    found = peers.mean([tf.constant([[2.0, 3.0]]), tf.constant([4, 7])])
    assert exchanges == [tf.distribute.ReduceOp.MEAN]
    assert (found[0].numpy().tolist(), found[1].numpy().tolist()) == ([[1.0, 2.0]], [3, 5])
    assert (peers.size, found[1].dtype) == (2, tf.int32)


@pytest.mark.parametrize("replica", [0, 1, 3])
def test_each_replica_of_a_process_takes_its_rows(monkeypatch, replica):
    """Of four replicas, two of which are in this process: 3 is its second one."""
    update = object.__new__(ReplicatedUpdate)
    update.strategy = SimpleNamespace(extended=SimpleNamespace(worker_devices=["CPU:0", "CPU:1"]))
    update._agent, update._step = SimpleNamespace(), lambda columns, syncing: columns
    context = SimpleNamespace(replica_id_in_sync_group=replica)
    monkeypatch.setattr(tf.distribute, "get_replica_context", lambda: context)
    rows = update._in_replica({"reward": tf.range(6), "obs": tf.reshape(tf.range(12), (6, 2))})
    first = 3 * (replica % 2)
    assert rows["reward"].numpy().tolist() == [first, first + 1, first + 2]
    assert rows["obs"].numpy()[0].tolist() == [2 * first, 2 * first + 1]


def test_what_cannot_be_shared_is_refused():
    agent, optimizer = dqn()
    for given, words in (
        (tf.distribute.MirroredStrategy(["CPU:0"]), "the agent was made outside of the strategy: make it within `with"),
        ("ddp", "strategy must be one of tf.distribute"),
        (tf.distribute.OneDeviceStrategy("CPU:0"), "agents do not train under OneDeviceStrategy; use tf.distribute.Mi"),
    ):
        with pytest.raises(NoteRLError, match=words):
            agent.distributed_training(optimizer, given, total_steps=96, p=0)


@pytest.mark.slow  # the tests above have the parts, manuals/test_distributed_training.py a strategy of one device
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
