"""The manual's chapter on distributed training runs as it is printed; see distributed.py."""

import json
import os
import socket
import subprocess
import sys

import pytest
import tensorflow as tf

from tests.note_rl.manuals.distributed import EPISODES, mirrored

QUIET = {"CUDA_VISIBLE_DEVICES": "-1", "TF_CPP_MIN_LOG_LEVEL": "3", "TF_NUM_INTRAOP_THREADS": "1"}


def results_of(chapter, folder, tasks=()):
    """Results of each process of a chapter; those that only serve have none."""
    servers = [socket.create_server(("127.0.0.1", 0)) for _ in tasks]
    places = [(kind, f"localhost:{server.getsockname()[1]}") for (kind, _), server in zip(tasks, servers, strict=True)]
    cluster = {kind: [address for other, address in places if other == kind] for kind, _ in places}
    for server in servers:
        server.close()
    processes = []
    for number, task in enumerate(tasks or [None]):
        config = {} if task is None else {"cluster": cluster, "task": {"type": task[0], "index": task[1]}}
        environment = {**os.environ, **QUIET, **({"TF_CONFIG": json.dumps(config)} if config else {})}
        program = [sys.executable, "-m", "tests.note_rl.manuals.distributed", chapter, folder / f"{number}.json"]
        processes.append(subprocess.Popen(list(map(str, program)), env=environment))
    try:
        assert [process.wait(300) for process in processes] == [0] * len(processes)
    finally:
        for process in processes:
            process.kill()
            process.wait()
    return [json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))]


def test_the_strategy_of_a_machine_with_one_device():
    model = mirrored(tf.distribute.MirroredStrategy(["CPU:0"]), episodes=10)
    assert len(model.reward_list) == 10
    assert model.num_gradient_steps > 0
    assert model.learner._update.strategy.num_replicas_in_sync == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    ("chapter", "episodes"), [("mirrored", EPISODES), ("ppo", 4 * EPISODES), ("pool_network", 2 * EPISODES)]
)
def test_mirrored(chapter, episodes, tmp_path):
    (result,) = results_of(chapter, tmp_path)
    assert result["episodes"] >= episodes
    assert result["gradient_steps"] > 0
    assert result["losses"]


@pytest.mark.slow
def test_multi_worker(tmp_path):
    first, second = results_of("multi_worker", tmp_path, [("worker", 0), ("worker", 1)])
    assert first["episodes"] >= EPISODES
    assert first["gradient_steps"] > 0
    assert second["episodes"] == 0  # the first one plays
    assert second["weights"] == first["weights"]


@pytest.mark.slow
def test_parameter_server(tmp_path):
    (chief,) = results_of("parameter_server", tmp_path, [("chief", 0), ("ps", 0), ("worker", 0), ("worker", 1)])
    assert chief["episodes"] >= 2 * EPISODES
    assert chief["gradient_steps"] > 0
    assert chief["losses"]
