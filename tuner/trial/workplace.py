"""The folder that a trial's process works in: it holds the folder's lock, and its output goes there."""

import contextlib
import faulthandler
import importlib
import os
import signal
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import NoReturn

from tuner.trial import folder as files
from tuner.trial import orphans
from tuner.trial.context import ControllerConnection
from tuner.trial.messages import Idle, Refused, TrialResult, TrialSpec
from tuner.trial.wire import Launch

EXIT_REFUSED = 75  # as EX_TEMPFAIL: another process has the folder
LOCK_PATIENCE_S = 1.0


class Workplace:
    """Where this process works: in one folder at a time.

    Args:
        line: To the controller.
    """

    def __init__(self, line: ControllerConnection) -> None:
        self._line = line
        self._lock: int | None = None
        self._folder = Path()
        self._entered: Launch | None = None
        os.register_at_fork(after_in_child=self._forsake)

    def enter(self, launch: Launch) -> tuple[TrialSpec, Path]:
        """Takes the folder, and over it the controller's environment, module path and working directory.

        Of a second folder, only what differs from those of the first: objects live on that were made with what the
        trial has set. Where another process works in the folder, this one says so and ends.
        """
        self._folder = Path(launch.folder)
        _redirect(self._folder)
        self._lock = files.acquire_lock(self._folder, LOCK_PATIENCE_S)
        if self._lock is None:
            self._line.send(Refused(f"another process runs this trial in {self._folder}"))
            os._exit(EXIT_REFUSED)
        files.claim(self._folder)
        before, self._entered = self._entered, launch
        if before is None:
            os.environ.clear()
            os.environ.update(launch.environment)
        else:
            _follow(before.environment, launch.environment)
        if before is None or before.path != launch.path:
            sys.path[:] = launch.path
            importlib.invalidate_caches()
        if before is None or before.cwd != launch.cwd:
            os.chdir(launch.cwd)
        return TrialSpec.from_json((self._folder / files.SPEC_FILE).read_text()), self._folder

    def wait(self, result: TrialResult) -> Launch:
        """Ends a trial, frees its folder and waits for the next one; ends this process if there is none."""
        self._write(result)
        assert self._lock is not None
        (self._folder / files.PID_FILE).unlink(missing_ok=True)  # from now on it is not to be found, or ended, there
        os.close(self._lock)
        self._lock = None
        self._line.send(Idle())
        with contextlib.suppress(ValueError):  # what comes instead may be a "stop" that was on its way
            received = self._line.read_launch()
            if received is not None:
                return received[0]
        end_process()

    def leave(self, result: TrialResult) -> NoReturn:
        """Ends the trial and this process."""
        self._write(result)
        end_process()

    def _write(self, result: TrialResult) -> None:
        flush_output()
        files.write_result(self._folder, result)

    def _forsake(self) -> None:
        """In a process that the trial forks: neither lock nor line may outlive the trial in it."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None  # a process that it forks may have another file by this number
        self._line.detach()


def flush_output() -> None:
    """Has the system get what Python's streams still hold."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):  # a full disk, a stream that the entry has closed
            stream.flush()


def end_process(status: int | None = None) -> NoReturn:
    """Ends this process with all that it has started: those of its group, and those that have left it.

    Args:
        status: The exit code, if anybody is to see one.
    """
    orphans.end_children()
    if status is not None:
        os._exit(status)
    os.killpg(os.getpgrp(), signal.SIGKILL)
    raise AssertionError("still alive after SIGKILL")


def _follow(before: Mapping[str, str], now: Mapping[str, str]) -> None:
    """Changes the environment variables of this process as those of its controller have changed."""
    for name in before.keys() - now.keys():
        os.environ.pop(name, None)
    os.environ.update({name: value for name, value in now.items() if before.get(name) != value})


def _redirect(folder: Path) -> None:
    """Points stdin to nothing, stdout and stderr to the end of output.log, for C code and child processes too."""
    flush_output()
    null = os.open(os.devnull, os.O_RDONLY)
    output = os.open(folder / files.OUTPUT_FILE, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o644)
    for source, targets in ((null, (0,)), (output, (1, 2))):
        for target in targets:
            os.dup2(source, target)
        os.close(source)
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(encoding="utf-8", errors="backslashreplace", line_buffering=True)  # type: ignore[union-attr]
    faulthandler.enable()  # a segmentation fault leaves a traceback in the output
    faulthandler.register(signal.SIGUSR1)  # so does a hang: the controller sends this before it ends a silent trial
