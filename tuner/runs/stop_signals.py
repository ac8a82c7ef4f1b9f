"""Ctrl-C and SIGTERM during a run: the first one asks it to stop, a later one ends it at once."""

import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType

from tuner.support.interrupts import interrupt

SAME_PRESS_S = 1.5
"""Signals that follow the first one so soon are the same wish: nobody has read yet what a second one would lose."""


class StopRequest:
    """Whether a run has been asked to stop.

    Args:
        plan: The effect of the first request, in words.

    Attributes:
        requested: Whether it has been asked.
        at_once: Whether it has been asked again: KeyboardInterrupt was raised, or is about to be.
    """

    def __init__(self, plan: str) -> None:
        self.requested = self.at_once = False
        self._plan = plan
        self._is_over = False
        self._requested_at = 0.0

    @contextmanager
    def handling_signals(self) -> Iterator[None]:
        """Takes the signals over; outside the main thread, where Python cannot, they are left as they are."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        former = {number: signal.signal(number, self._handle) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in former.items():
                signal.signal(number, handler)

    def over(self) -> None:
        """The run has ended: there is nothing to stop, and a first signal breaks off what is still done."""
        self._is_over = True

    def _handle(self, number: int, frame: FrameType | None) -> None:
        del frame
        now = time.monotonic()
        if self.requested and now - self._requested_at < SAME_PRESS_S:
            return
        if self.requested or self._is_over:
            self.at_once = True
            interrupt()
            return
        self.requested, self._requested_at = True, now
        key = "Ctrl-C" if number == signal.SIGINT else signal.Signals(number).name
        with suppress(OSError):  # past Python's streams: the handler may have interrupted one of their writes
            os.write(2, f"\nstopping: {self._plan}; {key} again ends without it\n".encode())
