"""The fork server: a process that has imported a backend and forks a child for every trial it is asked for.

A program of its own, started by `tuner.trial.forkclient.ForkServer`, so that nothing of the caller (its `__main__`,
threads, open files, other libraries) gets into a trial. It imports, forks and reaps; it starts no thread and runs no
tensor operation, which is what makes forking it safe.

Over its socket come lines of JSON: one `Hello`, then one request for each child, with the child's control socket as
SCM_RIGHTS. Back go lines with one of the keys "ready", "forked" (with a pidfd where there are such), "failed",
"exited". When the socket ends, the controller has gone: the server sees its last children out, then leaves.
"""

import contextlib
import gc
import importlib
import json
import os
import selectors
import signal
import socket
import sys
import time
import traceback
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import NoReturn

from tuner.trial import orphans, system, worker

_MAX_FDS = 16


@dataclass(frozen=True)
class Hello:
    """Settings of the server: its imports, where they are from, and how it ends.

    Attributes:
        path: `sys.path` of the controller.
        preload: Modules to import before the first fork.
        orphan_grace_s: How long a child may take, once its controller has gone, to notice, checkpoint and leave, before
            it is killed.
    """

    path: list[str]
    preload: list[str]
    orphan_grace_s: float = 60.0


def main(descriptor: int) -> None:
    """Serves until the socket ends and no child is left."""
    connection = socket.socket(fileno=descriptor)
    hello = Hello(**json.loads(_read_line(connection)))
    sys.path[:] = hello.path
    missing = _preload(hello.preload)
    sys.stdout.flush()
    gc.collect()
    gc.freeze()  # the collector of a child does not touch, and so copy, the pages it shares with this process
    orphans.become_subreaper()  # of what a killed trial leaves
    server = _Server(connection, hello.orphan_grace_s)
    server.tell({"ready": {"threads": _thread_names(), "missing": missing}})
    server.run()
    os._exit(0)  # there is nothing to save, and taking the frameworks down takes a while


def _preload(modules: list[str]) -> dict[str, str]:
    """Imports modules; returns those that cannot be. A trial that needs one says so itself, in its own output."""
    missing = {}
    for module in modules:
        try:
            importlib.import_module(module)
        except ImportError as error:
            missing[module] = str(error)
    return missing


def _thread_names() -> list[str]:
    """Returns the names of the threads of this process beside the main one, those of C libraries included."""
    if not system.ON_LINUX:
        return []
    names = []
    for task in Path("/proc/self/task").iterdir():
        with contextlib.suppress(OSError):
            names.append((int(task.name), (task / "comm").read_text().strip()))
    return [name for task_id, name in names if task_id != os.getpid()]


def _read_line(connection: socket.socket) -> bytes:
    """Reads up to a newline, byte by byte: what follows may carry descriptors."""
    line = b""
    while not line.endswith(b"\n"):
        byte = connection.recv(1)
        if not byte:
            sys.exit(0)
        line += byte
    return line


class _Server:
    def __init__(self, connection: socket.socket, orphan_grace_s: float) -> None:
        self._connection = connection
        self._orphan_grace_s = orphan_grace_s
        self._received = b""
        self._descriptors: list[int] = []
        self._children: set[int] = set()
        self._own = {pid for pid, parent in system.parents().items() if parent == os.getpid()}
        self._kill_at = float("inf")
        self._wake_reader, self._wake_writer = socket.socketpair()
        for end in (self._wake_reader, self._wake_writer):
            end.setblocking(False)
        signal.set_wakeup_fd(self._wake_writer.fileno(), warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)  # only the wake-up matters
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._connection, selectors.EVENT_READ, self._take_requests)
        self._selector.register(self._wake_reader, selectors.EVENT_READ, self._drain_wakes)

    @property
    def _is_alone(self) -> bool:
        return self._kill_at < float("inf")

    def run(self) -> None:
        """Works until the controller has gone and no child is left."""
        while self._children or not self._is_alone:
            timeout = max(0.0, self._kill_at - time.monotonic()) if self._is_alone else None
            for key, _ in self._selector.select(timeout):
                key.data()
            self._reap()
            if time.monotonic() >= self._kill_at:
                for pid in self._children:
                    system.kill_group(pid)
                self._kill_at = time.monotonic() + 1.0

    def tell(self, message: dict[str, object], descriptor: int | None = None) -> None:
        """Sends a line to the controller, if it is still there."""
        data = json.dumps(message).encode() + b"\n"
        with contextlib.suppress(OSError):
            socket.send_fds(self._connection, [data], [] if descriptor is None else [descriptor])

    def _take_requests(self) -> None:
        try:
            data, descriptors, _, _ = socket.recv_fds(self._connection, 65536, _MAX_FDS)
        except OSError:
            data, descriptors = b"", []
        if not data:
            self._selector.unregister(self._connection)
            self._kill_at = time.monotonic() + self._orphan_grace_s
            return
        self._descriptors += descriptors
        *lines, self._received = (self._received + data).split(b"\n")
        for line in lines:
            self._fork(int(json.loads(line)["fork"]), self._descriptors.pop(0))

    def _fork(self, request: int, control: int) -> None:
        began = time.monotonic()
        try:
            pid = os.fork()
        except OSError as error:
            os.close(control)
            self.tell({"failed": request, "reason": f"no process could be forked: {error}"})
            return
        if pid == 0:
            self._become_trial(control, began)
        os.close(control)
        self._children.add(pid)
        pidfd = system.open_pidfd(pid)  # the child is not reaped before this returns: its number is certain
        self.tell({"forked": request, "pid": pid, "pidfd": pidfd is not None}, pidfd)
        if pidfd is not None:
            os.close(pidfd)

    def _become_trial(self, control: int, began: float) -> NoReturn:
        """In the child: put off everything of the server, then be a worker."""
        try:
            os.setsid()
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            self._selector.close()
            for end in (self._connection, self._wake_reader, self._wake_writer):
                end.close()
            for descriptor in self._descriptors:  # other trials' control sockets
                os.close(descriptor)
            worker.main(control, began)
        except BaseException:  # noqa: BLE001 - the border of the process: nothing may return into the server's loop
            traceback.print_exc()
        finally:
            os._exit(worker.EXIT_FAILED)

    def _drain_wakes(self) -> None:
        with contextlib.suppress(BlockingIOError):
            while self._wake_reader.recv(4096):
                pass

    def _reap(self) -> None:
        codes = {pid: code for pid in self._children if (code := system.reap(pid)) is not None}
        self._children -= codes.keys()
        orphans.end_children(spared=self._children | self._own)  # what a trial leaves has become this process's
        for pid, code in codes.items():
            self.tell({"exited": pid, "code": code})


def hello_line(hello: Hello) -> bytes:
    """Returns the first line that a server is sent."""
    return json.dumps(asdict(hello)).encode() + b"\n"
