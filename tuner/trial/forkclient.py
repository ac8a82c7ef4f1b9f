"""The controller's side of the fork server: starts it, asks it for children, outlives its death.

It registers what it listens to with the caller's selector; the data of a registration is the function to call, with the
selector's mask, when it is ready.
"""

import contextlib
import json
import logging
import os
import selectors
import socket
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from tuner.trial import system
from tuner.trial.forkserver import Hello, hello_line
from tuner.trial.launch import Child, SpawnLauncher, module_path, program

_log = logging.getLogger(__name__)

MAX_FAILED_STARTS = 3
_TAIL_CHARS = 2000
_CLOSE_S = 5.0


@dataclass
class _Request:
    """A child that was asked for, as long as the server is still importing."""

    child: Child
    control: socket.socket
    folder: Path
    environment: Mapping[str, str]


class ForkServer:
    """The fork server seen from the controller: started when needed, also again after a death.

    Should the imports have left threads running in the server, forking it would not be safe: every child is then a
    fresh interpreter, and a warning names the threads.

    Args:
        selector: Where it listens for the server's answers.
        preload: Modules that the server imports before the first fork.
        environment: Environment variables of the server.
    """

    def __init__(
        self, selector: selectors.BaseSelector, preload: Sequence[str], environment: Mapping[str, str]
    ) -> None:
        self._selector = selector
        self._preload = list(preload)
        self._environment = dict(environment)
        self._process: subprocess.Popen[bytes] | None = None
        self._socket: socket.socket | None = None
        self._output: IO[bytes] | None = None
        self._received = b""
        self._pidfds: list[int] = []
        self._ready = False
        self._failed_starts = 0
        self._num_requests = 0
        self._queue: list[_Request] = []  # not yet sent, as the server is still importing
        self._asked: dict[int, Child] = {}  # sent, not yet answered
        self._children: dict[int, Child] = {}  # running, by pid
        self._instead: SpawnLauncher | None = None

    @property
    def pid(self) -> int | None:
        """Number of the server's process, None while there is none."""
        return None if self._process is None else self._process.pid

    def start(self) -> None:
        """Starts the server if there is none; it imports in the background."""
        if self._process is not None or self._instead is not None:
            return
        ours, theirs = socket.socketpair()
        self._output = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the server
        with theirs:
            self._process = subprocess.Popen(
                program("tuner.trial.forkserver", theirs.fileno()),
                env=self._environment,
                pass_fds=[theirs.fileno()],
                start_new_session=True,  # Ctrl-C in the terminal does not reach it
                stdin=subprocess.DEVNULL,
                stdout=self._output,
                stderr=self._output,
            )
        self._socket, self._received, self._ready = ours, b"", False
        self._selector.register(ours, selectors.EVENT_READ, self._take_answers)
        with contextlib.suppress(OSError):  # dead already: the selector tells
            ours.sendall(hello_line(Hello(module_path(), self._preload)))

    def launch(self, control: socket.socket, folder: Path, environment: Mapping[str, str]) -> Child:
        """Asks for a child; it is forked as soon as the server has imported everything."""
        if self._instead is not None:
            return self._instead.launch(control, folder, environment)
        request = _Request(Child(), control, folder, environment)
        self._queue.append(request)
        self.start()
        if self._ready:
            self._send_queue()
        return request.child

    def reap(self, child: Child) -> None:
        """Kills what is left of the child's group if the server, which does so otherwise, is dead."""
        if self._instead is not None:
            self._instead.reap(child)
        elif child.unknown and child.pid is not None:
            system.kill_group(child.pid)

    def inherits_from(self, child: Child) -> bool:
        """The server does, as long as it lives."""
        return system.ON_LINUX and self._instead is None and not child.unknown

    def close(self) -> None:
        """Ends the server. Children that still run lose their parent, nothing else."""
        for request in self._queue:
            request.control.close()
        self._queue.clear()
        self._end_process(kill=not self._ready)

    def _send_queue(self) -> None:
        while self._queue and self._socket is not None:
            request = self._queue.pop(0)
            if request.child.abandoned:
                request.control.close()
                continue
            self._num_requests += 1
            self._asked[self._num_requests] = request.child
            line = json.dumps({"fork": self._num_requests}).encode() + b"\n"
            with request.control as control, contextlib.suppress(OSError):  # dead: the selector notices
                socket.send_fds(self._socket, [line], [control.fileno()])

    def _take_answers(self, _mask: int) -> None:
        assert self._socket is not None
        try:
            data, pidfds, _, _ = socket.recv_fds(self._socket, 65536, 16)
        except OSError:
            data, pidfds = b"", []
        if not data:
            self._lose_server()
            return
        self._pidfds += pidfds
        *lines, self._received = (self._received + data).split(b"\n")
        for line in lines:
            self._take_answer(json.loads(line))

    def _take_answer(self, answer: dict[str, Any]) -> None:
        if "ready" in answer:
            self._ready, self._failed_starts = True, 0
            for module, reason in answer["ready"]["missing"].items():
                _log.debug("the fork server could not import %s: %s", module, reason)
            if answer["ready"]["threads"]:
                self._spawn_instead(answer["ready"]["threads"])
            self._send_queue()
        elif "forked" in answer:
            child = self._asked.pop(answer["forked"])
            child.pid = answer["pid"]
            child.pidfd = self._pidfds.pop(0) if answer["pidfd"] else None
            self._children[answer["pid"]] = child
            if child.abandoned and child.pidfd is not None:
                os.close(child.pidfd)
        elif "failed" in answer:
            self._asked.pop(answer["failed"]).error = answer["reason"]
        elif "exited" in answer:
            self._children.pop(answer["exited"]).exit_code = answer["code"]

    def _spawn_instead(self, threads: list[str]) -> None:
        _log.warning(
            "importing %s has started threads (%s), so that forking is not safe: "
            "every trial starts a fresh interpreter, which takes seconds (isolation=spawn)",
            ", ".join(self._preload),
            ", ".join(threads),
        )
        self._instead = SpawnLauncher()
        for request in self._queue:
            spawned = self._instead.launch(request.control, request.folder, request.environment)
            request.child.pid, request.child.pidfd = spawned.pid, spawned.pidfd
        self._queue.clear()
        self._end_process(kill=True)

    def _lose_server(self) -> None:
        """The server has died: what it was asked is open, what it forked runs on, what waits goes to a new one."""
        was_ready, tail = self._ready, self._tail_of_output()
        for child in [*self._asked.values(), *self._children.values()]:
            child.unknown = True
        self._asked.clear()
        self._children.clear()
        self._end_process(kill=True)
        if was_ready:
            _log.warning("the fork server has died; running trials go on, the next one starts a new server")
        else:
            self._failed_starts += 1
        if self._failed_starts >= MAX_FAILED_STARTS:
            self._failed_starts = 0
            for request in self._queue:
                request.control.close()
                request.child.error = f"the fork server died {MAX_FAILED_STARTS} times while it was starting: {tail}"
            self._queue.clear()
        elif self._queue:
            self.start()

    def _end_process(self, kill: bool) -> None:
        if self._process is None or self._socket is None or self._output is None:
            return
        self._selector.unregister(self._socket)
        self._socket.close()
        if kill:
            self._process.kill()
        try:
            self._process.wait(timeout=_CLOSE_S)
        except subprocess.TimeoutExpired:  # it waits for a child that no signal ends
            self._process.kill()
            self._process.wait()
        self._output.close()
        for pidfd in self._pidfds:
            os.close(pidfd)
        self._pidfds.clear()
        self._process = self._socket = self._output = None
        self._ready = False

    def _tail_of_output(self) -> str:
        assert self._output is not None
        self._output.seek(0)
        return self._output.read().decode(errors="replace").strip()[-_TAIL_CHARS:]
