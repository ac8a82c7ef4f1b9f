"""Processes of this machine that train along with the one that has started them."""

import json
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import wraps
from numbers import Integral
from typing import Any, ParamSpec

import cloudpickle  # type: ignore[import-untyped]

from note_rl.collect.recipe import Recipe
from note_rl.errors import PeerError, SettingsError
from note_rl.settings import Budget
from note_rl.training.agent import Agent
from note_rl.types import TrainResult

_P = ParamSpec("_P")
_PROGRAM = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); from note_rl.training.replicas import main; "
    "main(**json.loads(sys.argv[2]))"
)
_LOOK_S = 1.0
_PATIENCE_S = 5.0  # until a process that does not end is killed


def pickled_to_follow(agent: Agent, optimizer: Any) -> bytes:
    """Returns an agent with its optimizer for a process that takes gradient steps along with this one.

    What acts and trains stays here: environments, settings, the replay pool.

    Raises:
        SettingsError: An attribute cannot be pickled; it is named.
    """
    fresh: Any = object.__new__(type(agent))
    Agent.__init__(fresh)
    left_out = {*agent._bookkeeping, "_bookkeeping", "env", "evaluation_env", "recipe"}
    vars(fresh).update({name: value for name, value in vars(agent).items() if name not in left_out})
    vars(fresh).update(env=None, recipe=Recipe(type(agent), (), {}), optimizer=optimizer)
    content: bytes = cloudpickle.dumps(fresh)
    return content


@contextmanager
def started(content: bytes, size: int, port: int) -> Iterator[list["subprocess.Popen[bytes]"]]:
    """Processes of the ranks 1 to `size` - 1 are there within; none is left afterwards, whatever has happened.

    Args:
        content: A pickled agent, with its optimizer.
        size: How many ranks there are, this one included.
        port: Where they find each other.

    Raises:
        PeerError: As the block raises it, with how processes have ended.
    """
    processes: list[subprocess.Popen[bytes]] = []
    try:
        for rank in range(1, size):
            arguments = json.dumps({"rank": rank, "size": size, "port": port, "starter": os.getpid()})
            paths = json.dumps([str(path) for path in sys.path])
            command = [sys.executable, "-c", _PROGRAM, paths, arguments]
            processes.append(subprocess.Popen(command, stdin=subprocess.PIPE))
        for process in processes:
            assert process.stdin is not None
            with suppress(BrokenPipeError), process.stdin as theirs:  # one that has died is found when it is waited for
                theirs.write(content)
        yield processes
    except PeerError as error:
        raise type(error)(f"{error}{_ends(processes)}") from error
    finally:
        for process in processes:
            try:
                process.wait(_PATIENCE_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _ends(processes: list["subprocess.Popen[bytes]"]) -> str:
    """Returns which processes were ended by signals, in words."""
    codes = [(rank, process.poll()) for rank, process in enumerate(processes, 1)]
    killed = [f"rank {rank} was ended by {signal.Signals(-code).name}" for rank, code in codes if code and code < 0]
    return f" ({', '.join(killed)})" if killed else ""


def main(rank: int, size: int, port: int, starter: int) -> None:
    """Trains along, as a process that `started` has started; the agent comes from there."""
    for asked_to_end in (signal.SIGINT, signal.SIGTERM):  # rank 0 decides when to end, and batch systems tell all
        signal.signal(asked_to_end, signal.SIG_IGN)
    threading.Thread(target=_end_with, args=(starter,), daemon=True).start()
    agent = pickle.loads(sys.stdin.buffer.read())
    with suppress(PeerError):  # rank 0 says what has happened
        agent._follow(rank, size, port)


def _end_with(starter: int) -> None:
    """Ends this process some time after the one that has started it, even if an environment hangs."""
    while os.getppid() == starter:
        time.sleep(_LOOK_S)
    time.sleep(_PATIENCE_S)
    os._exit(1)


def distributed_budget(episodes: int | None, num_episodes: int | None, total_steps: int | None) -> Budget:
    """Returns how long to train; both names of episodes are the manuals'.

    Raises:
        SettingsError: More than one of them is given.
    """
    if episodes is not None and num_episodes is not None:
        raise SettingsError(f"episodes={episodes} and num_episodes={num_episodes} mean the same; give one of them")
    return Budget(total_steps=total_steps, episodes=num_episodes if episodes is None else episodes)


def global_batch_first(method: Callable[_P, TrainResult]) -> Callable[_P, TrainResult]:
    """Lets distributed_training() be called as older manuals print it, with the batch of all replicas first.

    A whole number in place of the optimizer becomes the keyword `global_batch_size`; what follows moves up.
    """

    @wraps(method)
    def moved_up(*given: _P.args, **named: _P.kwargs) -> TrainResult:
        agent, *others = given
        if not (others and isinstance(others[0], Integral)):
            return method(*given, **named)
        first = others.pop(0)
        if named.get("global_batch_size") is not None:
            raise SettingsError(
                f"distributed_training({first}, ..., global_batch_size={named['global_batch_size']}): the whole number "
                "before the optimizer is the batch of all replicas already; give one of them"
            )
        named["global_batch_size"] = first
        return method(*[agent, *others], **named)  # type: ignore[arg-type]

    return moved_up
