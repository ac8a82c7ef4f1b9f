"""Lines between processes that train together: messages with arrays, and whether the other end lives.

A message is JSON and the bytes of arrays, so that reading one never runs code. Both ends say every second that they are
there, from a thread of their own: a process that computes is alive, one that was stopped or cannot be reached is not.
"""

import json
import math
import queue
import socket
import struct
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from note_rl.errors import PeerDivergedError, PeerError
from note_rl.types import Array

SILENCE_S = 30.0
"""After this many seconds without a sign of life, a process counts as lost."""
FAILED = "failed"
"""Under this name a message holds the last words of an end that gives up."""
DIVERGED = "diverged"
"""The same of one that has found what is not finite."""
_BEAT_S = 1.0
_HEADER = struct.Struct("!QQ")  # bytes of the JSON, and of all arrays
_ALIVE, _FAREWELL = _HEADER.pack(0, 0), _HEADER.pack(0, 1)  # no message


WhenLost = Callable[[str], None]
"""Called once when the other end of a line is lost, with the reason; from any thread."""


@dataclass(frozen=True)
class Message:
    """A received message: JSON-able values, and arrays by name."""

    head: dict[str, Any]
    arrays: dict[str, Array] = field(default_factory=dict)


class Line:
    """One end of a connection.

    Args:
        connection: To the other end.
        name: Of the other end, as errors call it.
        when_lost: Called if the other end is lost, rather than closed.
    """

    def __init__(self, connection: socket.socket, name: str, when_lost: WhenLost | None = None) -> None:
        self.name = name
        self._when_lost = when_lost
        self._connection = connection
        self._inbox: queue.SimpleQueue[Message] = queue.SimpleQueue()
        self._sending = threading.Lock()
        self._heard = time.monotonic()
        self._end: str | None = None  # how the other end was lost
        self._error = PeerError  # the class of that error
        self._closed = threading.Event()
        self._farewell = False  # of the other end
        if connection.family != socket.AF_UNIX:  # messages are small and follow each other: none waits to be joined
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", math.ceil(SILENCE_S), 0))
        for work in (self._listen, self._beat):
            threading.Thread(target=work, name=f"line to {name}", daemon=True).start()

    def send(self, head: Mapping[str, Any], arrays: Mapping[str, Array] | None = None) -> None:
        """Sends a message.

        Raises:
            PeerError: The other end is lost.
        """
        whole = {name: np.asarray(values, order="C") for name, values in (arrays or {}).items()}
        layout = [[name, values.dtype.str, values.shape] for name, values in whole.items()]
        text = json.dumps([head, layout]).encode()
        size = sum(values.nbytes for values in whole.values())
        try:
            with self._sending:
                self._connection.sendall(_HEADER.pack(len(text), size) + text)
                for values in whole.values():
                    self._connection.sendall(values.reshape(-1).view(np.uint8).data)
        except OSError as error:
            self._lose("does not take any more" if isinstance(error, BlockingIOError) else "has ended")
            self.check()

    def receive(self) -> Message:
        """Returns the next message; waits for it.

        Raises:
            PeerError: The other end is lost, or says that it has failed.
            PeerDivergedError: It says that what it found is not finite.
        """
        while True:
            try:
                return self._inbox.get(timeout=_BEAT_S)
            except queue.Empty:
                self.check()

    def check(self) -> None:
        """Raises PeerError if the other end is lost; the error has its last message."""
        self._notice_silence()
        if self._end is not None:
            raise self._error(f"{self.name} {self._end}")

    def is_lost(self, within_s: float) -> bool:
        """Whether the other end is lost, or is so in a few seconds."""
        deadline = time.monotonic() + within_s
        while self._end is None and time.monotonic() < deadline:
            time.sleep(0.05)
        return self._end is not None

    def close(self) -> None:
        """Ends the connection; the other end finds it ended."""
        self._closed.set()
        if self._end is None:
            with suppress(OSError), self._sending:
                self._connection.sendall(_FAREWELL)
        with suppress(OSError):  # the other end was quicker
            self._connection.shutdown(socket.SHUT_RDWR)
        self._connection.close()

    def _notice_silence(self) -> None:
        silent = time.monotonic() - self._heard
        if silent > SILENCE_S:
            self._lose(f"has not been heard of for {silent:.0f} s: it hangs, or its machine cannot be reached")

    def _lose(self, how: str) -> None:
        if self._end is None:
            self._end = how
            if self._when_lost is not None and not (self._farewell or self._closed.is_set()):
                self._when_lost(f"{self.name} {how}")

    def _listen(self) -> None:
        try:
            while True:
                header = self._read(_HEADER.size)
                self._farewell = header == _FAREWELL
                text_size, size = _HEADER.unpack(header)
                if text_size:
                    self._take(_message(self._read(text_size), self._read(size)))
                self._heard = time.monotonic()
        except (OSError, EOFError):
            self._lose("has ended")

    def _take(self, message: Message) -> None:
        if FAILED in message.head:
            self._lose(f"has failed: {message.head[FAILED]}")
        elif DIVERGED in message.head:
            self._error = PeerDivergedError
            self._lose(f"has diverged: {message.head[DIVERGED]}")
        else:
            self._inbox.put(message)

    def _read(self, size: int) -> bytearray:
        content = bytearray(size)
        rest = memoryview(content)
        while rest:
            count = self._connection.recv_into(rest)
            if not count:
                raise EOFError
            rest = rest[count:]
            self._heard = time.monotonic()
        return content

    def _beat(self) -> None:
        while not self._closed.wait(_BEAT_S):
            self._notice_silence()
            try:
                with self._sending:
                    self._connection.sendall(_ALIVE)
            except OSError:
                return


def _message(text: bytearray, content: bytearray) -> Message:
    head, layout = json.loads(text)
    arrays, begin = {}, 0
    for name, kind, shape in layout:
        dtype, count = np.dtype(kind), math.prod(shape)
        arrays[name] = np.frombuffer(content, dtype, count, begin).reshape(shape)
        begin += count * dtype.itemsize
    return Message(head, arrays)
