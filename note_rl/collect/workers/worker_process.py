"""The program of a worker process, at the other end of a connection.

Started by `note_rl.collect.workers.processes` with nothing of the caller in it: no `__main__`, no threads, no open
files but its ends of the connections. Given several it imports what is asked for and forks a worker for each.
"""

import contextlib
import importlib
import json
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NoReturn

from note_rl.collect.workers.environment_worker import Worker
from note_rl.collect.workers.shared_memory import Segment
from note_rl.collect.workers.worker_messages import Failed, Ready, State, TellState, WorkerConnection, connection_of
from note_rl.errors import EnvironmentMismatchError

_GRACE_S = 1.0  # that a worker is left to close its environments when the training process has ended it, or has gone


@dataclass(frozen=True)
class Start:
    """Arguments of a new process.

    Attributes:
        connections: Descriptors of their ends, one per worker.
        life: Descriptor of a pipe that ends when the training process does.
        ends: Descriptor of a pipe for the exit codes of forked workers, one line of JSON each. The process
            that sees to the end of workers holds it open until then.
        preload: Modules to import before forking.
    """

    connections: Sequence[int]
    life: int
    ends: int
    preload: Sequence[str] = ()


def main(start: Start) -> NoReturn:
    """Works until the training process ends, or the connection does."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the training process's business
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])
    if len(start.connections) == 1:
        _work(start.connections[0], start.life, _guard(start))
    for module in start.preload:
        importlib.import_module(module)
    children = {}
    for index, descriptor in enumerate(start.connections):
        pid = os.fork()
        if pid == 0:
            for other in (*start.connections[index + 1 :], start.ends):
                os.close(other)
            _work(descriptor, start.life)
        os.close(descriptor)
        children[pid] = index
    _reap(start, children)


def _reap(start: Start, children: dict[int, int]) -> NoReturn:
    """Reports how workers ended, and sees that they do when the training process has gone."""

    def end_children() -> None:
        os.read(start.life, 1)
        time.sleep(_GRACE_S)
        for pid in list(children):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    threading.Thread(target=end_children, daemon=True).start()
    while children:
        pid, status = os.wait()
        if pid not in children:  # a module's that was imported before
            continue
        index = children.pop(pid)
        with contextlib.suppress(OSError):
            os.write(start.ends, json.dumps([index, os.waitstatus_to_exitcode(status)]).encode() + b"\n")
    os._exit(0)


def _guard(start: Start) -> int:
    """Forks a process that ends this one when the training process has gone, and returns its id.

    An environment's step that does not let other threads run cannot be ended from within.
    """
    worker = os.getpid()
    guard = os.fork()
    if guard != 0:
        os.close(start.ends)  # which ends with the guard
        return guard
    for descriptor in (*start.connections, 0, 1, 2):  # those that others wait for the end of
        with contextlib.suppress(OSError):
            os.close(descriptor)
    os.read(start.life, 1)
    until = time.monotonic() + 2 * _GRACE_S
    while os.getppid() == worker and time.monotonic() < until:
        time.sleep(0.01)
    if os.getppid() == worker:
        os.kill(worker, signal.SIGKILL)
    os._exit(0)


def _work(descriptor: int, life: int, guard: int | None = None) -> NoReturn:
    """Is a worker from here on; whatever happens, its environments are closed and the parent is notified."""
    threading.Thread(target=_end_with, args=(life, guard), daemon=True).start()
    connection, exit_code = connection_of(descriptor), 1
    closing = contextlib.ExitStack()
    try:
        serve(connection, closing)
    except (EOFError, BrokenPipeError):
        exit_code = 0
    except BaseException as error:  # noqa: BLE001 - the border of the process: the error is sent to the parent
        last = traceback.format_exception_only(error)[-1].strip()
        refused = str(error) if isinstance(error, EnvironmentMismatchError) else None
        with contextlib.suppress(OSError):
            frames = traceback.extract_tb(error.__traceback__)
            connection.send(Failed(last, traceback.format_exc(), frames, refused))
    with contextlib.suppress(Exception):  # an error of an environment's close() can reach nobody any more
        closing.close()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    _end(exit_code, guard)


def _end_with(life: int, guard: int | None) -> NoReturn:
    """Ends this process soon after the training process has gone."""
    os.read(life, 1)
    time.sleep(_GRACE_S)
    _end(0, guard)


def _end(exit_code: int, guard: int | None) -> NoReturn:
    if guard is not None:
        with contextlib.suppress(OSError):
            os.kill(guard, signal.SIGKILL)
            os.waitpid(guard, 0)
    os._exit(exit_code)


def serve(connection: WorkerConnection, closing: contextlib.ExitStack) -> None:
    """Does what messages say until the connection ends (EOFError); `closing` learns what to close then."""
    config, descriptor = connection.receive()
    assert descriptor is not None
    worker = Worker(config, Segment(descriptor, config.num_bytes))
    closing.callback(worker.close)
    connection.send(Ready(worker.exact))
    while True:
        message, _ = connection.receive()
        if isinstance(message, TellState):
            connection.send(State(worker.get_state()))
        else:
            collected, segment = worker.collect(message)
            connection.send(collected, segment)
            if segment is not None:
                os.close(segment)
