"""The parent's end of a trial's control socket: never waits, neither to send nor to receive."""

import selectors
import socket

from tuner.trial.messages import Message
from tuner.trial.wire import MAX_LINE_BYTES, decode

_CHUNK = 65536
_CHUNKS_PER_TURN = 16  # so that one talkative child does not keep the others from being heard
_LAST_CHUNKS = 2 * MAX_LINE_BYTES // _CHUNK  # of a dead child: a process that it has left behind could go on for ever


class Connection:
    """A pair of sockets, one for this side, one for a child.

    Args:
        selector: Where this side's socket is registered; the data of the registration is the function to call with
            its mask.

    Attributes:
        is_open: Whether more may come. Nobody holds the other end once it is not.
        child_end: The child's socket, to be passed on to the process that starts the child.
    """

    def __init__(self, selector: selectors.BaseSelector) -> None:
        self._selector = selector
        self._socket, self.child_end = socket.socketpair()
        self._socket.setblocking(False)
        self._outbox = b""
        self._lines: list[bytes] = []
        self._rest = bytearray()
        self.is_open = True
        selector.register(self._socket, selectors.EVENT_READ, self._on_ready)

    def send(self, data: bytes) -> None:
        """Sends as much as fits now and the rest when the selector finds that more does."""
        self._outbox += data
        self._flush()

    def receive(self, to_the_end: bool = False) -> None:
        """Takes in what is there; `to_the_end` for a child that is dead, whose last words are limited."""
        for _ in range(_LAST_CHUNKS if to_the_end else _CHUNKS_PER_TURN):
            if not self.is_open or len(self._rest) > MAX_LINE_BYTES:
                return
            try:
                data = self._socket.recv(_CHUNK)
            except BlockingIOError:
                return
            except OSError:
                data = b""
            if not data:
                self._leave()
            *lines, rest = data.split(b"\n")
            for line in lines:
                self._lines.append(bytes(self._rest) + line)
                self._rest.clear()
            self._rest += rest

    def take_messages(self) -> list[Message]:
        """Returns what has come, in order.

        Raises:
            ValueError: A line that is not a message, or one that does not end.
        """
        lines, self._lines = self._lines, []
        if len(self._rest) > MAX_LINE_BYTES:
            raise ValueError(f"a line of more than {MAX_LINE_BYTES:,} bytes")
        return [decode(line) for line in lines]

    def close(self) -> None:
        """Closes this side."""
        self._leave()
        self._socket.close()

    def _leave(self) -> None:
        if self.is_open:
            self.is_open = False
            self._selector.unregister(self._socket)

    def _on_ready(self, mask: int) -> None:
        if mask & selectors.EVENT_WRITE:
            self._flush()
        if mask & selectors.EVENT_READ:
            self.receive()

    def _flush(self) -> None:
        if not self.is_open:
            return
        try:
            if self._outbox:
                self._outbox = self._outbox[self._socket.send(self._outbox) :]
        except BlockingIOError:
            pass
        except OSError:  # the child has gone; reading tells
            self._outbox = b""
        mask = selectors.EVENT_READ | (selectors.EVENT_WRITE if self._outbox else 0)
        self._selector.modify(self._socket, mask, self._on_ready)
