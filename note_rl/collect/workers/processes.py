"""Starting worker processes, talking to them, and seeing that none is left."""

import contextlib
import json
import os
import selectors
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from note_rl.collect.workers.worker_messages import Failed, WorkerConnection
from note_rl.collect.workers.worker_process import Start
from note_rl.errors import EnvironmentMismatchError, WorkerError
from note_rl.support.threads import thread_variables

_PROGRAM = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); "
    "from note_rl.collect.workers.worker_process import Start, main; "
    "main(Start(**json.loads(sys.argv[2])))"
)
_PATIENCE_S = 3.0  # until a process that does not end is killed
_LOOK_S = 0.5  # how often it is looked whether a worker from which nothing comes lives
_EXIT_CODE_S = 1.0  # until the exit code of a dead worker should be known


class WorkerPool:
    """Worker processes, from their start to their end.

    Args:
        num_workers: How many.
        forked: Whether one process forks them all, rather than each starting by itself.
        preload: Modules that it imports before.

    Attributes:
        broken: Whether a worker has failed or died: the answers that are missing will not come.
    """

    broken = False

    def __init__(self, num_workers: int, forked: bool, preload: Sequence[str]) -> None:
        self._connections: list[WorkerConnection] = []
        self._processes: list[subprocess.Popen[bytes]] = []
        self._answers: dict[int, Any] = {}  # what has come, by worker
        self._life: int | None = None
        self._ends = -1
        self._exit_reports = b""  # of the process that forks workers: how they ended, a line of JSON each
        self._selector = selectors.DefaultSelector()
        groups = [range(num_workers)] if forked else [range(worker, worker + 1) for worker in range(num_workers)]
        try:
            self._start(groups, preload)
        except BaseException:
            self.end()
            raise

    def _start(self, groups: Sequence[range], preload: Sequence[str]) -> None:
        """Starts a process per group of workers; the ends that are theirs are closed here in any case."""
        life, self._life = os.pipe()
        self._ends, ends = os.pipe()
        theirs: list[socket.socket] = []
        try:
            for group in groups:
                theirs = []
                for index in group:
                    ours, other = socket.socketpair()
                    theirs.append(other)
                    self._connections.append(WorkerConnection(ours))
                    self._selector.register(ours, selectors.EVENT_READ, index)
                start = Start([end.fileno() for end in theirs], life, ends, preload)
                self._processes.append(_process(start))
                for end in theirs:
                    end.close()
        finally:
            os.close(life)
            os.close(ends)
            for end in theirs:
                end.close()

    def send(self, worker: int, message: Any, descriptor: int | None = None) -> None:
        """Sends a message, which the worker will answer.

        Raises:
            WorkerError: It is dead.
        """
        try:
            self._connections[worker].send(message, descriptor)
        except OSError:
            while True:  # until its last words, or how it died, are raised
                self._take(worker)

    def receive(self) -> list[Any]:
        """Returns one answer of every worker, as (message, descriptor or None); waits for them.

        Raises:
            WorkerError: One of them has failed or died.
            EnvironmentMismatchError: An environment of one does not give what it must.
        """
        while len(self._answers) < len(self._connections):
            self._select(_LOOK_S)
        answers = [self._answers[index] for index in range(len(self._connections))]
        self._answers.clear()
        return answers

    def check(self) -> None:
        """Raises what receive() would, without waiting."""
        self._select(0.0)

    def _select(self, timeout_s: float) -> None:
        ready = self._selector.select(timeout_s)
        for key, _ in ready:
            self._take(key.data)
        if not ready:  # the connection of a dead worker may be held open by what its environments have forked
            for worker in range(len(self._connections)):
                if self._exit_code(worker, wait_s=0.0) is not None:
                    for key, _ in self._selector.select(0):  # its last words may have come after the look above
                        self._take(key.data)
                    raise WorkerError(f"worker process {worker} {self._how_it_ended(worker)}")

    def _take(self, worker: int) -> None:
        """Takes the next message of one worker."""
        try:
            message, descriptor = self._connections[worker].receive()
        except EOFError:
            self.broken = True
            raise WorkerError(f"worker process {worker} {self._how_it_ended(worker)}") from None
        self.broken = self.broken or isinstance(message, Failed)
        if isinstance(message, Failed) and message.refused is not None:
            raise EnvironmentMismatchError(message.refused)
        if isinstance(message, Failed):
            text = message.traceback.rstrip()
            raise WorkerError(
                f"worker process {worker} failed: {message.error}\n\nIts traceback:\n{text}", message.frames
            )
        self._answers[worker] = message, descriptor

    def _how_it_ended(self, worker: int) -> str:
        code = self._exit_code(worker, _EXIT_CODE_S)
        if code is None or code >= 0:
            return "ended" if code is None else f"ended with exit code {code}"
        name = signal.Signals(-code).name if -code in set(signal.Signals) else f"signal {-code}"
        hint = "; the system does that when memory runs out" if name == "SIGKILL" else ""
        return f"was ended by {name}{hint}"

    def _exit_code(self, worker: int, wait_s: float) -> int | None:
        """Returns minus the signal's number if a signal ended it; None where it lives, or nobody knows."""
        if len(self._processes) == len(self._connections):
            with contextlib.suppress(subprocess.TimeoutExpired):
                return self._processes[worker].wait(wait_s)
            return None
        with selectors.DefaultSelector() as selector:
            selector.register(self._ends, selectors.EVENT_READ)
            while worker not in self._codes() and selector.select(wait_s):
                read = os.read(self._ends, 4096)
                if not read:
                    break
                self._exit_reports += read
        return self._codes().get(worker)

    def _codes(self) -> dict[int, int]:
        """Returns the exit codes that the process which forked the workers has reported, by worker."""
        return dict(json.loads(line) for line in self._exit_reports.splitlines())

    def end(self) -> None:
        """Ends all processes, whatever they are doing, and waits for that."""
        if self._life is None:
            return
        life, self._life = self._life, None
        os.close(life)  # every process watches this pipe
        for connection in self._connections:
            connection.close()
        for process in self._processes:
            try:
                process.wait(_PATIENCE_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self._selector.close()
        self._wait_for_guards()
        for _, descriptor in self._answers.values():
            if descriptor is not None:
                os.close(descriptor)

    def _wait_for_guards(self) -> None:
        """Waits until those who see to the end of workers, and hold this pipe open, are gone, too."""
        with selectors.DefaultSelector() as selector:
            selector.register(self._ends, selectors.EVENT_READ)
            while selector.select(_PATIENCE_S) and os.read(self._ends, 4096):
                pass
        os.close(self._ends)


def _process(start: Start) -> "subprocess.Popen[bytes]":
    """Starts a process. Ctrl-C is kept from it until it has said that it ignores it."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        return subprocess.Popen(
            [sys.executable, "-c", _PROGRAM, json.dumps([str(path) for path in sys.path]), json.dumps(asdict(start))],
            stdin=subprocess.DEVNULL,
            env={"TF_FORCE_GPU_ALLOW_GROWTH": "true", **os.environ, **thread_variables(1)},
            pass_fds=[*start.connections, start.life, start.ends],
        )
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
