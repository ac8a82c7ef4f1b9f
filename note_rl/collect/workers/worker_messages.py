"""Messages between the process that trains and its workers."""

import os
import pickle
import socket
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from traceback import StackSummary
from typing import Any

from note_rl.collect.workers.shared_memory import Column
from note_rl.types import Array

_HEADER = struct.Struct("!Q?")  # length of the message in bytes, whether a descriptor comes along
_CLOSE_ON_EXEC = getattr(socket, "MSG_CMSG_CLOEXEC", 0)


@dataclass(frozen=True, kw_only=True)
class WorkerConfig:
    """Configuration of a worker; a descriptor of the weights' segment comes along. Parts in bytes were pickled.

    Attributes:
        number: Of the worker.
        places: Which of all environments it steps.
        num_envs: How many there are in all.
        seed: Root of all randomness.
        environments: A list of its environments, or what makes them.
        policy: How to explore there.
        frame_stack: Frames shown together.
        reads: What the agent's loss reads besides; see `Collector`.
        multi_agent: Whether several agents share each environment.
        agent: The `Recipe` by which the agent is made again; None: it is not needed.
        reward_done: Under `multi_agent`, reward_done_func_ma; None: the agent's, if there is one.
        activations: Of the layers in which to work out answers, by agent (None: the only one); None: ask the agent.
        weights: Where arrays lie in the segment; `version` among them.
        num_bytes: Size of the segment.
        state: Where to go on from; empty: the start.
    """

    number: int
    places: Sequence[int]
    num_envs: int
    seed: int
    environments: bytes
    policy: bytes
    frame_stack: int
    reads: Sequence[str]
    multi_agent: bool
    agent: bytes | None
    reward_done: bytes | None
    activations: bytes | None
    weights: Sequence[Column]
    num_bytes: int
    state: Mapping[str, Array] = field(default_factory=dict)


@dataclass(frozen=True)
class Ready:
    """The worker can begin; whether its environments are exactly where the state says."""

    exact: bool


@dataclass(frozen=True)
class Collect:
    """Asks for a number of steps in each environment.

    Attributes:
        num_steps: How many.
        version: Of the weights that have to be in the segment.
        numbers: Of the policy, which a schedule moves.
        attributes: Numbers and words of the agent, as they are now.
        normaliser: Its state.
        activations: As in `WorkerConfig`, if they have changed.
    """

    num_steps: int
    version: int
    numbers: Mapping[str, float]
    attributes: Mapping[str, Any]
    normaliser: Mapping[str, Array]
    activations: bytes | None = None


@dataclass(frozen=True)
class Collected:
    """The steps are in the worker's segment, whose descriptor comes along if it is a new one.

    Attributes:
        columns: Where they lie.
        num_bytes: Size of the segment.
        episodes: Return and length of those that ended, in order, and in which of the worker's environments.
    """

    columns: Sequence[Column]
    num_bytes: int
    episodes: Sequence[tuple[float, int, int]]


@dataclass(frozen=True)
class TellState:
    """Asks a worker where it is, which it answers with its `State`."""


@dataclass(frozen=True)
class State:
    """Where the worker is, random numbers included."""

    arrays: Mapping[str, Array]


@dataclass(frozen=True)
class Failed:
    """The worker's last words: an exception in one line, and its traceback.

    Attributes:
        frames: Of the traceback, without those of what caused the exception.
        refused: The message, where environments do not give what they must.
    """

    error: str
    traceback: str
    frames: StackSummary
    refused: str | None = None


class WorkerConnection:
    """One end of a socket, for messages of any size and descriptors. Both ends are our own."""

    def __init__(self, end: socket.socket) -> None:
        self._end = end

    def fileno(self) -> int:
        """Returns the descriptor, which is what selectors ask for."""
        return self._end.fileno()

    def send(self, message: Any, descriptor: int | None = None) -> None:
        """Sends a message.

        Raises:
            OSError: The other end is gone.
        """
        content = pickle.dumps(message, pickle.HIGHEST_PROTOCOL)
        header = _HEADER.pack(len(content), descriptor is not None)
        if descriptor is None:
            self._end.sendall(header + content)
        else:
            sent = socket.send_fds(self._end, [header], [descriptor])
            self._end.sendall(header[sent:] + content)

    def receive(self) -> tuple[Any, int | None]:
        """Returns the next message, and the descriptor that came along; waits for it.

        Raises:
            EOFError: The other end is gone.
        """
        try:
            header, descriptors, _, _ = socket.recv_fds(self._end, _HEADER.size, 1, _CLOSE_ON_EXEC)
            if not header:
                raise EOFError
            length, has_descriptor = _HEADER.unpack(header + self._read(_HEADER.size - len(header)))
            message = pickle.loads(self._read(length))
        except ConnectionError as error:
            raise EOFError from error
        assert len(descriptors) == has_descriptor
        return message, descriptors[0] if descriptors else None

    def _read(self, length: int) -> bytearray:
        content = bytearray(length)
        rest = memoryview(content)
        while rest:
            read = self._end.recv_into(rest)
            if not read:
                raise EOFError
            rest = rest[read:]
        return content

    def close(self) -> None:
        """Closes this end; the other one notices by an EOFError."""
        self._end.close()


def connection_of(descriptor: int) -> WorkerConnection:
    """Returns the connection whose end is this descriptor, inherited from the process that made it."""
    os.set_inheritable(descriptor, False)
    return WorkerConnection(socket.socket(fileno=descriptor))
