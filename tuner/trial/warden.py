"""The warden of an executor: a small process that outlives the controller, to end what is left when all others died.

It reads the numbers of the fork server and of the trials, one a line, and does nothing until the controller says no
more, having closed the executor or died. It then waits for these processes: trials notice by themselves that nobody
listens, checkpoint and leave. What carries the mark of the executor after that, or after a time, is ended.
"""

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Iterable
from typing import NoReturn

from tuner.trial import orphans, system
from tuner.trial.launch import program

PATIENCE_S = 75.0
"""How long trials may take to leave; longer than the fork server gives them."""

_POLL_S = 0.1


def main(descriptor: int) -> NoReturn:
    """Reads the controller's list of processes to its end, waits for them, ends what is left."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # it ends when the others have
    with os.fdopen(descriptor) as controller:
        session = controller.readline().strip()
        told = [(pid, system.start_time(pid)) for pid in map(int, controller)]
    deadline = time.monotonic() + PATIENCE_S
    alive = [(pid, started) for pid, started in told if started is not None]
    while any(system.start_time(pid) == started for pid, started in alive) and time.monotonic() < deadline:
        time.sleep(_POLL_S)
    if session:
        orphans.end_marked(session)
    os._exit(0)


class Warden:
    """The warden seen from the controller.

    Args:
        session: Mark of the executor.
    """

    def __init__(self, session: str) -> None:
        reading, self._writing = os.pipe()
        try:
            self._process = subprocess.Popen(
                program("tuner.trial.warden", reading),
                pass_fds=[reading],
                start_new_session=True,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
        finally:
            os.close(reading)
        self._known: set[int] = set()
        self._say(session)

    @property
    def pid(self) -> int:
        """Number of its process."""
        return self._process.pid

    def watch(self, pids: Iterable[int]) -> None:
        """Tells it which processes there are: the fork server, the trials."""
        now = set(pids)
        for pid in now - self._known:
            self._say(str(pid))
        self._known = now

    def close(self) -> None:
        """Nothing is left that it would have to end."""
        self._process.kill()
        self._process.wait()
        os.close(self._writing)

    def _say(self, line: str) -> None:
        with contextlib.suppress(BrokenPipeError):  # somebody has killed it
            os.write(self._writing, f"{line}\n".encode())
