"""Ranks as processes over gloo: what they come to, and that none is left however they end."""

import io
import os
import pickle
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from textwrap import dedent
from types import SimpleNamespace
from typing import ClassVar

import numpy as np
import psutil
import pytest
import torch

from note_rl.agents.pytorch import DQN
from note_rl.distributed import channel, replicas
from note_rl.errors import PeerError, SettingsError
from note_rl.policy import EpsGreedyQPolicy
from note_rl.seeding import seed_everything
from note_rl.training.callbacks import Callback

REPLAY = {"batch": 16, "pool_size": 500, "train_freq": 8, "num_updates": 4, "learning_starts": 32, "update_batches": 4}


def made(kind=DQN):
    seed_everything(0)
    agent = kind(hidden_size=(8,))
    agent.set(policy=EpsGreedyQPolicy(0.2), **REPLAY, PR=True, max_grad_norm=0.05, seed=1)
    return agent, torch.optim.Adam(agent.param, 1e-3)


def arrays(agent):
    return [parameter.detach().numpy().copy() for parameter in agent.param]


def children():
    """Living ones: tests before these may have left some that nobody has asked how they ended."""
    found = psutil.Process().children(recursive=True)
    return [child for child in found if child.status() != psutil.STATUS_ZOMBIE]


class UpTo(Callback):
    """Stops, or ends the other rank, after the given number of steps, and keeps the state of that moment."""

    def __init__(self, agent, steps):
        self.agent, self.steps = agent, steps
        self.before = children()

    def on_phase_end(self, phase, logs):
        if phase == 8:
            self.signal(signal.SIGTERM)  # as batch systems tell all processes; rank 0 decides
        if logs["num_env_steps"] == self.steps:
            self.parameters, self.returns = arrays(self.agent), list(self.agent.reward_list)
            self.end()

    def signal(self, number):
        """There is no other rank."""

    def end(self):
        self.agent.stop_training = True


class Killing(UpTo):
    """Ends training by ending the other rank."""

    def signal(self, number):
        (rank,) = [child for child in children() if child not in self.before]
        rank.send_signal(number)

    def end(self):
        self.signal(signal.SIGKILL)


def test_processes_started_here_come_to_the_numbers_of_one_and_one_that_is_killed_ends_training(monkeypatch):
    monkeypatch.setattr("note_rl.distributed.replicas._PATIENCE_S", 0.5)
    alone, optimizer = made()
    expected = UpTo(alone, 120)
    alone.train(optimizer, total_steps=100_000, callbacks=expected, p=0)
    agent, optimizer = made()
    killing = Killing(agent, 120)
    with pytest.raises(PeerError, match=r"rank 1 .*has ended.*rank 1 was ended by SIGKILL"):
        agent.distributed_training(optimizer, "ddp", total_steps=100_000, replicas=2, callbacks=killing, p=0)
    assert killing.returns == expected.returns != []
    for mine, theirs in zip(killing.parameters, expected.parameters, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=0, atol=1e-5)
    assert children() == killing.before
    assert not torch.distributed.is_initialized()
    agent.train(total_steps=agent.num_env_steps + 16, p=0)  # what it has learned is there, and it goes on alone


class Signalling(Callback):
    """Sends the other rank a signal while training goes on."""

    def __init__(self, number):
        self.number = number
        self.before = children()

    def on_phase_end(self, phase, logs):
        if phase == 8:
            (rank,) = [child for child in children() if child not in self.before]
            rank.send_signal(self.number)


@pytest.mark.slow  # test_channel.py has silence among ranks that are threads
def test_a_rank_that_is_stopped_ends_training(monkeypatch):
    monkeypatch.setattr(channel, "SILENCE_S", 3.0)
    monkeypatch.setattr("note_rl.distributed.replicas._PATIENCE_S", 0.5)
    agent, optimizer = made()
    signalling = Signalling(signal.SIGSTOP)
    with pytest.raises(PeerError, match=r"rank 1 .*has not been heard of for [34] s"):
        agent.distributed_training(optimizer, total_steps=100_000, replicas=2, callbacks=signalling, p=0)
    assert children() == signalling.before


@pytest.mark.slow  # rank 0 ends the ranks of the two tests above
def test_processes_come_to_their_end_and_to_the_numbers_of_one():
    alone, optimizer = made()
    expected = alone.train(optimizer, total_steps=120, p=0)
    agent, optimizer = made()
    before = children()
    result = agent.distributed_training(optimizer, "ddp", total_steps=120, replicas=2, p=0)
    assert result.returns == expected.returns
    for mine, theirs in zip(arrays(agent), arrays(alone), strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=0, atol=1e-5)
    assert children() == before
    assert not torch.distributed.is_initialized()


class Following:
    """Stands for an agent that came by a pipe, and notes as which rank it follows."""

    followed: ClassVar[list[tuple[int, int, int]]] = []

    def _follow(self, *place):
        self.followed.append(place)


def test_a_rank_ends_some_time_after_the_process_that_has_started_it(monkeypatch):
    parents, ended, watched, begun = iter([7, 7, 1]), [], [], threading.Event()
    monkeypatch.setattr(replicas, "_LOOK_S", 0.0)
    monkeypatch.setattr(replicas, "_PATIENCE_S", 0.0)
    with monkeypatch.context() as patch:
        patch.setattr(os, "getppid", lambda: next(parents))
        patch.setattr(os, "_exit", ended.append)
        replicas._end_with(7)
    assert ended == [1]
    assert list(parents) == [], "not before that has ended"
    monkeypatch.setattr(replicas, "_end_with", lambda starter: (watched.append(starter), begun.set()))
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(pickle.dumps(Following()))))
    replicas.main(1, 2, 9000, starter=7)
    assert begun.wait(10.0)
    assert (watched, Following.followed) == ([7], [(1, 2, 9000)])


SCRIPT = """
import sys
import numpy as np
from note_rl.training.callbacks import Callback
from tests.note_rl.distributed.test_replicas import arrays, made
import psutil

class Telling(Callback):
    def on_phase_end(self, phase, logs):
        if phase == 8:
            print(*(child.pid for child in psutil.Process().children()), flush=True)

agent, optimizer = made()
result = agent.distributed_training(optimizer, total_steps=int(sys.argv[1]), callbacks=Telling(), p=0, {more})
np.savez(sys.argv[2], *arrays(agent), steps=result.num_env_steps)
"""


def script(more, *arguments, **environment):
    return subprocess.Popen(
        [sys.executable, "-c", SCRIPT.replace("{more}", more), *map(str, arguments)],
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        text=True,
    )


class Hanging(DQN):
    """Hangs in the loss in every process but the first one; a file says so."""

    def __call__(self, s, a, next_s, r, d):
        if os.environ["LEADER"] != str(os.getpid()):
            Path(os.environ["PID_FILE"]).write_text(str(os.getpid()))
            time.sleep(3600)
        return super().__call__(s, a, next_s, r, d)


@pytest.mark.slow  # what it ends by: test_a_rank_ends_some_time_after_the_process_that_has_started_it
def test_a_rank_whose_loss_hangs_does_not_outlive_rank_0(tmp_path):
    program = """
        import os
        os.environ["LEADER"] = str(os.getpid())
        from tests.note_rl.distributed.test_replicas import Hanging, made
        agent, optimizer = made(Hanging)
        agent.distributed_training(optimizer, total_steps=120, replicas=2, p=0)
    """
    pid_file = tmp_path / "pid"
    first = subprocess.Popen([sys.executable, "-c", dedent(program)], env={**os.environ, "PID_FILE": str(pid_file)})
    while not (pid_file.exists() and pid_file.read_text()):
        assert first.poll() is None
        time.sleep(0.05)
    other = psutil.Process(int(pid_file.read_text()))
    first.kill()
    first.wait()
    psutil.wait_procs([other], timeout=20)
    assert not other.is_running()


@pytest.mark.slow
def test_processes_that_torchrun_has_started_come_to_the_numbers_of_one(tmp_path):
    alone, optimizer = made()
    alone.train(optimizer, total_steps=120, p=0)
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    place = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2"}
    both = [script("", 120, tmp_path / f"{rank}.npz", RANK=str(rank), **place) for rank in range(2)]
    assert [one.wait() for one in both] == [0, 0]
    for one in both:
        one.stdout.close()
    told = [np.load(tmp_path / f"{rank}.npz") for rank in range(2)]
    assert told[0]["steps"] == told[1]["steps"] == 120
    for index, theirs in enumerate(arrays(alone)):
        np.testing.assert_array_equal(told[0][f"arr_{index}"], told[1][f"arr_{index}"])
        np.testing.assert_allclose(told[0][f"arr_{index}"], theirs, rtol=0, atol=1e-5)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "replicas must be a whole number of at least 2, got None"),
        ({"replicas": 1}, "at least 2, got 1"),
        ({"replicas": 3}, "minibatches of 16 cannot be dealt out to 3 replicas"),
        ({"strategy": "mirrored", "replicas": 2}, "strategy must be 'ddp', or a process group"),
        ({"episodes": 1, "num_episodes": 1, "replicas": 2}, "mean the same; give one of them"),
    ],
)
def test_what_makes_no_sense_is_refused_before_a_process_starts(arguments, message):
    agent, optimizer = made()
    before = children()
    with pytest.raises(SettingsError, match=message):
        agent.distributed_training(optimizer, **arguments)
    assert children() == before
