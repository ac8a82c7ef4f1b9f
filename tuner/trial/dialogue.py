"""The dialogue of a child with its parent, from its launch to its end."""

import time
from enum import Enum

from tuner.trial.connection import Connection
from tuner.trial.messages import Idle, Message, Refused, Report, Started, Verdict
from tuner.trial.wire import encode_verdict


class Turn(Enum):
    """Whose turn it is to speak."""

    CHILD = "the child's"
    PARENT = "the parent's: the child has reported and waits for the verdict"
    NOBODY = "nobody's: the child has sent something unreadable and is not heard any more"


class Dialogue:
    """The parent's end of the talk with one child.

    Args:
        connection: To the child.
        launch: The child's first input, or the first behind its waiting.

    Attributes:
        turn: Whose turn it is.
        pid: Of the child, once it has said that it holds its folder: what is written there from then on is its own.
        refusal: Why it could not have the folder; empty otherwise.
        complaint: The unreadable message, with the reason; empty otherwise.
        is_waiting: Whether the child has written its result and waits for another launch.
        last_heard: When the child said something, or was answered, as `time.monotonic()`.
    """

    def __init__(self, connection: Connection, launch: bytes) -> None:
        self.turn = Turn.CHILD
        self.pid: int | None = None
        self.refusal = self.complaint = ""
        self.is_waiting = False
        self.last_heard = time.monotonic()
        self._connection = connection
        self._connection.send(launch)

    @property
    def is_open(self) -> bool:
        """Whether more may come."""
        return self._connection.is_open

    def hear(self, now: float) -> list[Message]:
        """Returns what has come, in order, but for what is kept here. Something unreadable ends the talk."""
        messages: list[Message] = []
        if self.turn is Turn.NOBODY:
            return messages
        try:
            for message in self._connection.take_messages():
                self.last_heard = now
                self._take(message)
                messages.append(message)
        except ValueError as error:
            self.turn, self.complaint = Turn.NOBODY, str(error)
        return [message for message in messages if not isinstance(message, Refused | Idle)]

    def hear_last_words(self) -> None:
        """Takes in what a child that is dead has still said."""
        self._connection.receive(to_the_end=True)

    def answer(self, verdict: Verdict) -> None:
        """Answers the open report."""
        self.turn, self.last_heard = Turn.CHILD, time.monotonic()
        self._connection.send(encode_verdict(verdict))

    def ask_to_stop(self) -> None:
        """Says so whether or not the child has reported."""
        self._connection.send(encode_verdict("stop"))

    def is_silent(self, now: float, limit_s: float | None) -> bool:
        """Whether the child has kept silent for too long. Waiting for a verdict is not silence."""
        return limit_s is not None and self.turn is not Turn.PARENT and now - self.last_heard > limit_s

    def close(self) -> None:
        """Closes this side."""
        self._connection.close()

    def _take(self, message: Message) -> None:
        match message:
            case Started(pid):
                self.pid = pid
            case Refused(reason):
                self.refusal = reason
            case Idle():
                self.is_waiting = True
            case Report(step) if self.turn is Turn.PARENT:
                raise ValueError(f"a report at {step:g} before the verdict on its last one")
            case Report():
                self.turn = Turn.PARENT
