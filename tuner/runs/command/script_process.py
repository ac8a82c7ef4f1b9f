"""A program that a run has started: its output, and its end with all that it has started."""

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from tuner.support.text_files import open_to_append
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
        self._logs = (logs / ERRORS, logs / OUTPUT)
        self._mark = orphans.new_session()  # also of what leaves its session
        self._known: dict[int, str] = {}  # processes that it has started, by the time of their start
        with open_to_append(logs / OUTPUT) as output, open_to_append(logs / ERRORS) as errors:
            self._begins = [file.seek(0, os.SEEK_END) for file in (errors, output)]  # behind what earlier ones printed
            self._process = subprocess.Popen(
                list(words),
                cwd=cwd,
                env={**environment, **orphans.marked_with(self._mark, environment)},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=errors,
                start_new_session=True,
                preexec_fn=orphans.end_with_parent,
            )

    @property
    def status(self) -> int | None:
        """Its exit status, minus the number of the signal that ended it; None while it runs.

        When it has ended, so has its group: from then on the number of that may be another's.
        """
        if self._process.returncode is None:
            self._process.returncode = system.reap(self._process.pid)
        return self._process.returncode

    def wait(self, seconds: float) -> None:
        """Waits for its end, or so long."""
        deadline = time.monotonic() + seconds
        while self.status is None and (left := deadline - time.monotonic()) > 0:
            time.sleep(min(left, _POLL_S))

    def end(self) -> None:
        """Ends it with all that it has started: SIGTERM to its group, some seconds, SIGKILL to what is left."""
        if self.status is None:
            self._look_around()
            self._signal(signal.SIGTERM)
            self.wait(_GRACE_S)
        if self.status is None:
            self._look_around()
            self._signal(signal.SIGKILL)
        for pid, started in self._known.items():
            if system.start_time(pid) == started:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)
        while self.status is None:
            time.sleep(_POLL_S)
        orphans.end_marked(self._mark)

    def tail(self, num_lines: int = 5) -> str:
        """The last lines that it wrote to stderr, or where there are none, to stdout."""
        for path, begin in zip(self._logs, self._begins, strict=True):
            with path.open("rb") as file:
                file.seek(max(path.stat().st_size - _TAIL_BYTES, begin))
                lines = [line for line in file.read().decode(errors="replace").splitlines() if line.strip()]
            if lines:
                return "\n".join(lines[-num_lines:])
        return ""

    def _signal(self, number: signal.Signals) -> None:
        """To its group, which has this number as long as the process is not collected."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, number)

    def _look_around(self) -> None:
        """Notes what descends from it, also what has left its group: once it has ended, nobody can tell any more."""
        for pid in system.belonging_to([self._process.pid]).keys() - {self._process.pid}:
            if (started := system.start_time(pid)) is not None:
                self._known.setdefault(pid, started)


def wait_a_moment(since: float) -> float:
    """Seconds until a program is looked at again: shortly at first, for those that end at once."""
    return min(max((time.monotonic() - since) / 20, _POLL_S), 0.5)
