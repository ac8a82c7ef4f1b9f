"""Who controls a study, and how it is asked to stop."""

import fcntl
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType

from tuner.errors import UserError
from tuner.files import sweep_asides

LOCK_FILE = "controller.lock"


@contextmanager
def sole_controller(folder: Path) -> Iterator[None]:
    """Holds the study's folder for this process; the lock goes with the process, however that ends.

    Raises:
        UserError: Another process controls the study, or the folder cannot be used.
    """
    path = folder / LOCK_FILE
    try:
        folder.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise UserError(
            f"the study folder {folder} cannot be used: {error.strerror}; choose another with study.folder=..."
        ) from error
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(descriptor, 32, 0).decode(errors="replace").strip() or "another"
            raise UserError(
                f"the study in {folder} is being run by process {holder}; wait for it, stop it, "
                "or use another study.name"
            ) from None
        os.ftruncate(descriptor, 0)
        with suppress(OSError):  # a full disk: who holds the lock is then not known by number
            os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        for place in (folder, folder / "experiment"):
            sweep_asides(place)
        yield
    finally:
        os.close(descriptor)


class Interrupts:
    """Ctrl-C and SIGTERM while a study runs: the first asks it to stop, the second ends it at once.

    Attributes:
        requested: Whether the study has been asked to stop.
        reason: By which signal; empty if it was something else.
    """

    def __init__(self) -> None:
        self.requested = False
        self.reason = ""

    @contextmanager
    def heeded(self) -> Iterator[None]:
        """Takes the signals over; outside the main thread, where Python cannot, they are left as they are."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {number: signal.signal(number, self._handle) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self.requested:
            raise KeyboardInterrupt
        self.requested = True
        self.reason = signal.Signals(number).name


def set_aside(folder: Path) -> Path | None:
    """Renames a folder that an earlier, forgotten study has left, so that nothing in it is taken for ours or lost.

    Returns:
        Its new name; None if there was nothing.
    """
    if not folder.exists():
        return None
    number = 1
    while (aside := folder.with_name(f"{folder.name}.old-{number}")).exists():
        number += 1
    folder.rename(aside)
    return aside
