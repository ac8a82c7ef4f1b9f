"""Errors for users of `note_rl`.

NoteRLError (ValueError)
├── SettingsError              arguments of set()/train() that contradict each other or make no sense
├── EnvironmentMismatchError   the environment does not fit the agent, or cannot be made
├── AgentContractError         the agent's action()/__call__ do not return what they must
└── CheckpointError            a file that is damaged, foreign, from a newer version or of another agent
DivergedError (ArithmeticError)   a loss that is not finite: the run cannot be saved by going on
WorkerError (RuntimeError)        a worker process failed or died
PeerError (RuntimeError)          a process that trains together with this one failed, died or fell silent
└── PeerDivergedError            what it found is not finite: also a DivergedError
"""

import logging
import re
from collections.abc import Sequence
from traceback import FrameSummary
from typing import Any

from note_rl.errors.wording import Sentence, Vocabulary

_said: set[str] = set()


class NoteRLError(ValueError):
    """Root of the errors that say: what you asked for cannot be done, and why.

    Its arguments are those of a `Sentence`, which has other words for other readers.
    """

    def said(self, vocabulary: Vocabulary) -> str:
        """The message in the words of its reader."""
        return Sentence(*self.args).said(vocabulary)

    def __str__(self) -> str:
        """The message as a `Sentence` is printed."""
        return str(Sentence(*self.args))


class SettingsError(NoteRLError):
    """Arguments that contradict each other or are out of range."""


class EnvironmentMismatchError(NoteRLError):
    """An environment that cannot be made, or whose spaces the agent cannot use."""


class AgentContractError(NoteRLError):
    """An agent whose methods do not return what the contract asks for."""


class CheckpointError(NoteRLError):
    """A checkpoint that is damaged, foreign, from a newer version or of another agent."""


class DivergedError(ArithmeticError):
    """Training produced a loss that is not finite."""


class WorkerError(RuntimeError):
    """A worker process raised an exception, whose traceback is in the message, or died.

    Args:
        message: What happened.
        frames: Where the exception was raised in the worker, outermost first; none: it died.
    """

    def __init__(self, message: str, frames: Sequence[FrameSummary] = ()) -> None:
        super().__init__(message)
        self.frames = frames


class PeerError(RuntimeError):
    """A process that takes gradient steps together with this one has failed or died, or is silent; it is named."""


class PeerDivergedError(PeerError, DivergedError):
    """A value that is not finite, found by a process that takes gradient steps with this one; the process is named."""


def say_once(logger: logging.Logger, text: str, *parts: Any) -> None:
    """Logs a `Sentence` as a warning, the first time in this process only."""
    sentence = Sentence(text, *parts)
    if str(sentence) not in _said:
        _said.add(str(sentence))
        logger.warning("%s", sentence)


def about_shapes(error: Exception) -> str:
    """The line of a framework's message that says which shapes do not fit; else its first one."""
    lines = [re.sub(r"\x1b\[\d*m", "", line).strip() for line in str(error).splitlines()]
    said = [line for line in lines if line and not line.startswith(("File ", "in user code", "Exception encountered"))]
    telling = [line for line in said if re.search(r"shape|size|dimension|axis|dtype|rank", line)]
    best = [line for line in telling if "xpected" in line]
    return next(iter([*best, *telling, *said]), type(error).__name__)
