"""How a controller starts children: what any launcher does, and the plain one, a fresh interpreter for each.

A launcher is given the child's end of a control socket and fills in a `Child` as it learns about it.
"""

import os
import socket
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from tuner.support.text_files import open_to_append
from tuner.trial import folder as files
from tuner.trial import system

SILENCE_VARIABLE = "TUNER_SILENCE_S"
"""Holds, in the environment of a trial, after how many seconds without a sign of life it is ended."""

_SOURCE_ROOT = str(Path(__file__).absolute().parents[2])


@dataclass
class Child:
    """State of the process of a trial, as far as it is known.

    Attributes:
        pid: Its number, None until it is forked.
        pidfd: Becomes readable at its end; owned by its reader. None where there are no pidfds.
        exit_code: Exit code, or minus the number of the signal that ended it; None while unknown.
        unknown: The server died: if the child was forked, its exit code stays unknown.
        error: Why it could not be started, empty otherwise.
        abandoned: Nobody waits for it any more; should it still come into being, it finds its line closed and leaves.
    """

    pid: int | None = None
    pidfd: int | None = None
    exit_code: int | None = None
    unknown: bool = False
    error: str = ""
    abandoned: bool = False


class Launcher(Protocol):
    """Starts children."""

    def launch(self, control: socket.socket, folder: Path, environment: Mapping[str, str]) -> Child:
        """Starts a child around its end of the control socket, which the launcher closes when it has passed it on."""
        ...

    def reap(self, child: Child) -> None:
        """Kills what is left of the group of a child that has ended; learns its exit code if nobody else tells it."""
        ...

    def inherits_from(self, child: Child) -> bool:
        """Whether what a child leaves behind is ended by a process that this launcher keeps running."""
        ...

    def close(self) -> None:
        """Ends what the launcher itself keeps running."""
        ...


def module_path() -> list[str]:
    """Returns `sys.path` for a child: this process's, with the working directory in it, as absolute paths.

    The directory comes last where it was not in it, so that a file there cannot take the place of an installed module.
    """
    cwd = os.getcwd()
    path = [os.path.join(cwd, entry) if entry else cwd for entry in sys.path]
    return path if cwd in path else [*path, cwd]


def program(module: str, descriptor: int) -> list[str]:
    """Returns a command that calls `module.main(descriptor)`; the first path entry only serves to find `tuner`."""
    start = f"import sys; sys.path.insert(0, {_SOURCE_ROOT!r}); from {module} import main; main({descriptor})"
    return [sys.executable, "-c", start]


class SpawnLauncher:
    """Starts every child as a fresh interpreter, which imports its backend itself (seconds)."""

    def __init__(self) -> None:
        self._processes: dict[int, subprocess.Popen[bytes]] = {}

    def launch(self, control: socket.socket, folder: Path, environment: Mapping[str, str]) -> Child:
        """Starts a child."""
        with control, open_to_append(folder / files.OUTPUT_FILE) as output:
            process = subprocess.Popen(
                program("tuner.trial.worker", control.fileno()),
                env=dict(environment),
                pass_fds=[control.fileno()],
                start_new_session=True,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )
        self._processes[process.pid] = process
        return Child(process.pid, system.open_pidfd(process.pid))

    def reap(self, child: Child) -> None:
        """Collects the child."""
        if child.pid is None or child.exit_code is not None:
            return
        child.exit_code = system.reap(child.pid)
        if child.exit_code is not None:
            self._processes.pop(child.pid).returncode = child.exit_code  # or it would warn that it is still running

    def inherits_from(self, child: Child) -> bool:
        """Nobody does."""
        del child
        return False

    def close(self) -> None:
        """Nothing is kept running."""
