"""A program that a run has started: its output, and its end with all that it has started."""

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from tuner.trial import orphans, system

OUTPUT, ERRORS = "script-output.log", "script-errors.log"
_GRACE_S = 5.0
_POLL_S = 0.02
_TAIL_BYTES = 4096


class ScriptProcess:
    """A running program, leader of a group of its own.

    Args:
        words: The command.
        cwd: Its working directory.
        logs: The folder of the files that its output goes to.
        environment: All of it.
    """

    def __init__(self, words: Sequence[str], cwd: Path, logs: Path, environment: Mapping[str, str]) -> None:
        self.output, self._errors = logs / OUTPUT, logs / ERRORS
        self._known: dict[int, str] = {}  # processes that it has started, by the time of their start
        with self.output.open("wb") as output, self._errors.open("wb") as errors:
            self._process = subprocess.Popen(
                list(words),
                cwd=cwd,
                env=dict(environment),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=errors,
                start_new_session=True,
                preexec_fn=orphans.end_with_parent,
            )

    @property
    def status(self) -> int | None:
        """Its exit status, minus the number of the signal that ended it; None while it runs."""
        return self._process.poll()

    def wait(self, seconds: float) -> None:
        """Waits for its end, or so long."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(seconds)

    def end(self) -> None:
        """Ends it with all that descends from it: SIGTERM to its group, some seconds, SIGKILL to what is left."""
        self._look_around()
        if self.status is None:
            self._signal(signal.SIGTERM)
            self.wait(_GRACE_S)
            self._look_around()
        self._signal(signal.SIGKILL)
        for pid, started in self._known.items():
            if system.start_time(pid) == started:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)
        self._process.wait()

    def tail(self, num_lines: int = 5) -> str:
        """The last lines that it wrote to stderr, or where there are none, to stdout."""
        for path in (self._errors, self.output):
            with path.open("rb") as file:
                file.seek(max(path.stat().st_size - _TAIL_BYTES, 0))
                lines = [line for line in file.read().decode(errors="replace").splitlines() if line.strip()]
            if lines:
                return "\n".join(lines[-num_lines:])
        return ""

    def _signal(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, number)

    def _look_around(self) -> None:
        """Notes what descends from it, also what has left its group: once it has ended, nobody can tell any more."""
        parents = system.parents()
        below = {self._process.pid}
        for _ in range(len(parents)):
            more = {pid for pid, parent in parents.items() if parent in below} - below
            if not more:
                break
            below |= more
        for pid in below - {self._process.pid}:
            if (started := system.start_time(pid)) is not None:
                self._known.setdefault(pid, started)


def wait_a_moment(since: float) -> float:
    """Seconds until a program is looked at again: shortly at first, for those that end at once."""
    return min(max((time.monotonic() - since) / 20, _POLL_S), 0.5)
