"""Control of a study: which process has it, and how that is asked to stop."""

import fcntl
import logging
import os
import signal
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Protocol

from tuner.errors import UserError
from tuner.support.interrupts import EXIT_INTERRUPTED
from tuner.support.text_files import sweep_unfinished

LOCK_FILE = "controller.lock"
LAST_RESORT_S = 5.0
"""How long the second Ctrl-C may take to end a wait for the database, before the process ends without it."""

_HANDLED = (signal.SIGINT, signal.SIGTERM)
_log = logging.getLogger(__name__)


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
            sweep_unfinished(place)
        yield
    finally:
        os.close(descriptor)


class Waiting(Protocol):
    """Something that may be waiting where no Python runs, such as in the driver of a database."""

    @property
    def is_waiting(self) -> bool:
        """Whether it does."""

    def give_up(self) -> bool:
        """Waits no longer, for good. Returns whether it was waiting and now returns by itself."""


class Interrupts:
    """Ctrl-C and SIGTERM while a study runs: the first asks it to stop, the second ends it at once.

    A second thread sees the signals, too: Python runs a handler only when the main thread is back from its driver.

    Args:
        storage: The storage that the main thread may be waiting for.

    Attributes:
        requested: Whether the study has been asked to stop.
        reason: By which signal; empty if it was something else.
    """

    def __init__(self, storage: Waiting | None = None) -> None:
        self.requested = False
        self.reason = ""
        self._storage = storage

    @contextmanager
    def handling_signals(self) -> Iterator[None]:
        """Takes the signals over; outside the main thread, where Python cannot, they are left as they are."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        reader, writer = socket.socketpair()
        writer.setblocking(False)
        threading.Thread(target=self._listen, args=(reader,), name="signal-watch", daemon=True).start()
        before = {number: signal.signal(number, self._handle) for number in _HANDLED}
        descriptor = signal.set_wakeup_fd(writer.fileno(), warn_on_full_buffer=False)
        try:
            yield
        finally:
            signal.set_wakeup_fd(descriptor)
            for number, handler in before.items():
                signal.signal(number, handler)
            writer.close()

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self.requested:
            if self._storage is None or not self._storage.give_up():
                raise KeyboardInterrupt
            return
        self.requested = True
        self.reason = signal.Signals(number).name
        if self._storage is not None and self._storage.is_waiting:
            _log.warning("stopping once the database answers; a second Ctrl-C ends it at once")

    def _listen(self, signals: socket.socket) -> None:
        """Gets each signal as a byte, whatever the main thread is doing, until the other end is closed."""
        heard = 0
        with signals:
            while content := signals.recv(64):
                heard += sum(number in _HANDLED for number in content)
                if heard > 1 and self._storage is not None and self._storage.is_waiting:
                    self._storage.give_up()
                    time.sleep(LAST_RESORT_S)
                    if self._storage.is_waiting:  # a driver that nothing wakes; runs save themselves and leave
                        os.write(2, b"\nended without an answer of the database; the same command goes on\n")
                        os._exit(EXIT_INTERRUPTED)


def archive(folder: Path) -> Path | None:
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
