"""Interface of executors: they start trials somewhere, report their events, and pass verdicts on."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeAlias

from tuner.trial.context import TrialContext
from tuner.trial.messages import (
    VERDICTS,
    Alive,
    Built,
    Limits,
    Log,
    Message,
    Report,
    Started,
    TrialResult,
    TrialSpec,
    Verdict,
)

__all__ = [
    "Event",
    "Executor",
    "Limits",
    "Seats",
    "TrialBuilt",
    "TrialEnded",
    "TrialFunction",
    "TrialLogged",
    "TrialProgress",
    "TrialReported",
    "TrialStarted",
    "check_verdict",
    "event_of",
]

TrialFunction: TypeAlias = Callable[[TrialContext], object]
"""The function that a trial runs in place of its spec's entry. Its return value is ignored; values are reported."""


@dataclass(frozen=True)
class _OfTrial:
    key: str


# What a trial says, with the key of the trial; the fields of the message follow it.
@dataclass(frozen=True)
class TrialStarted(Started, _OfTrial):
    """The trial's process is about to call its entry."""


@dataclass(frozen=True)
class TrialBuilt(Built, _OfTrial):
    """The objects of the run exist: seconds since the fork, and the config that was really used."""


@dataclass(frozen=True)
class TrialReported(Report, _OfTrial):
    """An intermediate value. The trial waits: `Executor.answer` must be called."""


@dataclass(frozen=True)
class TrialLogged(Log, _OfTrial):
    """Metrics to track."""


@dataclass(frozen=True)
class TrialProgress(Alive, _OfTrial):
    """The done part of the work, in [0, 1]."""


@dataclass(frozen=True)
class TrialEnded(_OfTrial):
    """The trial has ended, and no process works for it. Its slot is free."""

    result: TrialResult


Event: TypeAlias = TrialStarted | TrialBuilt | TrialReported | TrialLogged | TrialProgress | TrialEnded

_EVENTS: Mapping[type[Message], Callable[..., Event]] = {
    Started: TrialStarted,
    Built: TrialBuilt,
    Report: TrialReported,
    Log: TrialLogged,
    Alive: TrialProgress,  # a trial's `Refused` is kept by its TrialProcess
}


def event_of(key: str, message: Message) -> Event:
    """The event that a trial's message is."""
    return _EVENTS[type(message)](key, **vars(message))


@dataclass(frozen=True)
class Seats:
    """How many trials there is room for at a time.

    Attributes:
        count: At least 1.
        remark: An addition to a plan; empty for none.
    """

    count: int
    remark: str = ""


def check_verdict(verdict: str) -> None:
    """Refuses what is no answer to a report (ValueError)."""
    if verdict not in VERDICTS:
        raise ValueError(f"a verdict is one of {', '.join(VERDICTS)}, not {verdict!r}")


class Executor(Protocol):
    """Runs trials. Used from one thread; whatever becomes of a trial is an event, never an exception."""

    @property
    def parallel(self) -> int:
        """How many trials it runs at a time."""
        ...

    @property
    def limits(self) -> Limits | None:
        """Limits of a trial's resources; None where they are not enforced."""
        ...

    @property
    def free_slots(self) -> int:
        """How many trials can be started now."""
        ...

    def reclaim(self, spec: TrialSpec, folder: Path) -> None:
        """Frees the folder of a trial from what a killed controller has left running; returns when it is free.

        What runs may take its time to checkpoint and leave. Called for each trial that an earlier controller has begun
        and not seen the end of, and for all of them before the first one is started again.

        Args:
            spec: The trial.
            folder: Its folder, which may not be there.
        """
        ...

    def start(self, spec: TrialSpec, folder: Path, function: TrialFunction | bytes | None = None) -> None:
        """Starts a trial.

        Args:
            spec: The trial; its key must not be running.
            folder: Its folder, made if need be. With what an earlier attempt left in it, the trial continues.
            function: Called in place of `spec.entry`; bytes are its cloudpickle.

        Raises:
            UserError: The folder cannot be written, or the function cannot be pickled.
            RuntimeError: No slot is free, or the key is running.
        """
        ...

    def wait(self, timeout_s: float | None = None) -> list[Event]:
        """Returns what has happened, in order for each trial; waits for it up to `timeout_s` seconds.

        Returns an empty list when the time is up, and at once when no trial is running.
        """
        ...

    def answer(self, key: str, verdict: Verdict) -> None:
        """Answers a `TrialReported`. Once the trial has ended an answer is not needed, and not wrong."""
        ...

    def stop_all(self) -> None:
        """Asks all trials to checkpoint and leave. Their ends come as events of `wait`."""
        ...

    def close(self) -> None:
        """Ends all trials and leaves nothing behind. Events not taken yet are lost; the folders tell."""
        ...
