"""Calls that run one after another in a thread of their own, so that the caller never waits for them."""

import threading
from collections import deque
from collections.abc import Callable


class BackgroundCalls:
    """A queue of calls and the thread that makes them, in order.

    Calls must handle their own expected errors: an exception that escapes ends the thread and is shown by
    `threading.excepthook`; from then on nothing is accepted. The thread is a daemon: it never holds up the end of the
    process.

    Args:
        name: of the thread.
        capacity: number of waiting calls beyond which droppable ones are refused.
    """

    def __init__(self, name: str, capacity: int) -> None:
        self._name = name
        self._capacity = capacity
        self._waiting: deque[Callable[[], None]] = deque()
        self._changed = threading.Condition()
        self._busy = False
        self._closed = False
        self._ended = False
        self._thread: threading.Thread | None = None

    @property
    def closed(self) -> bool:
        """Whether nothing is accepted any more."""
        return self._closed

    def submit(self, call: Callable[[], None], droppable: bool = False) -> bool:
        """Adds a call; returns at once.

        Args:
            call: made later, in the thread.
            droppable: refuse it when the queue is full. Calls that must not be lost are always accepted.

        Returns:
            Whether it was accepted; never after `close`.
        """
        with self._changed:
            if self._closed or (droppable and len(self._waiting) >= self._capacity):
                return False
            self._waiting.append(call)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
                self._thread.start()
            self._changed.notify_all()
            return True

    def close(self, timeout_s: float, go_on: Callable[[], bool] = lambda: False) -> bool:
        """Accepts nothing more and waits for the calls under way.

        Args:
            timeout_s: after this the waiting calls are thrown away; one that has begun is left to itself.
            go_on: asked then, whether to wait for as long again.

        Returns:
            Whether every call was made.
        """
        with self._changed:
            self._closed = True
            self._changed.notify_all()
            try:
                while not self._changed.wait_for(lambda: self._idle() or self._ended, timeout=timeout_s):
                    if not go_on():
                        break
                return self._idle()
            finally:
                self._waiting.clear()

    def _idle(self) -> bool:
        return not self._waiting and not self._busy

    def _run(self) -> None:
        try:
            while (call := self._next()) is not None:
                call()
                with self._changed:
                    self._busy = False
                    self._changed.notify_all()
        finally:
            with self._changed:
                self._closed = self._ended = True
                self._changed.notify_all()

    def _next(self) -> Callable[[], None] | None:
        """The next call, or None when closed and there is none."""
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._closed)
            if not self._waiting:
                return None
            self._busy = True
            return self._waiting.popleft()
