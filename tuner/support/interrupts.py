"""Ctrl-C: while the program is loaded it ends the command at once, later it raises KeyboardInterrupt where that may be.

Standard library only.
"""

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType

EXIT_INTERRUPTED = 130

_num_unbroken = 0  # blocks that the main thread is in
_is_held = False  # whether a KeyboardInterrupt waits for their end


def begin_imports() -> None:
    """Nothing has been begun, and an exception within an import may come out as anything: Ctrl-C leaves."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # else it is ignored, as behind `nohup`
        signal.signal(signal.SIGINT, _leave)


def begin_work() -> None:
    """From here on there is something to be brought to an end: Ctrl-C is a KeyboardInterrupt; see `interrupt`."""
    if signal.getsignal(signal.SIGINT) is _leave:
        signal.signal(signal.SIGINT, interrupt)


def end_work() -> None:
    """All has been brought to its end: Ctrl-C leaves at once, in the midst of what Python does when it ends."""
    if signal.getsignal(signal.SIGINT) in (interrupt, signal.default_int_handler):
        signal.signal(signal.SIGINT, _leave)


@contextmanager
def unbroken() -> Iterator[None]:
    """A block that `interrupt` does not break off, such as an import: the half of a module would stay for good."""
    global _num_unbroken, _is_held
    if threading.current_thread() is not threading.main_thread():  # no other thread is interrupted
        yield
        return
    _num_unbroken += 1
    try:
        yield
    finally:
        _num_unbroken -= 1
        if _is_held and not _num_unbroken:
            _is_held = False
            raise KeyboardInterrupt


def interrupt(number: int = signal.SIGINT, frame: FrameType | None = None) -> None:
    """Raises KeyboardInterrupt: in an `unbroken` block at its end, the next time at once. A handler of signals."""
    global _is_held
    del number, frame
    if _num_unbroken and not _is_held:
        _is_held = True
        return
    _is_held = False
    raise KeyboardInterrupt


@contextmanager
def ending_as_by_ctrl_c() -> Iterator[None]:
    """A block that SIGTERM breaks off as Ctrl-C does, so that what it has made is removed."""
    in_main_thread = threading.current_thread() is threading.main_thread()
    if not in_main_thread or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        yield
        return
    signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _leave(number: int, frame: FrameType | None) -> None:
    with suppress(OSError):  # standard error may be closed
        os.write(2, b"\nstopped\n")  # sys.stderr may be in the middle of a line of its own
    os._exit(EXIT_INTERRUPTED)
