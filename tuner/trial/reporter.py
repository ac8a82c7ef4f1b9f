"""Interfaces through which a run reports: its reporter, and the line to the controller behind it."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from tuner.trial.messages import JsonDict, Message, Verdict


class Reporter(Protocol):
    """Interface for the reports of a run, as in `TrialContext`. Each method may raise `TrialInterrupted` to end it."""

    @property
    def reported(self) -> Sequence[tuple[float, float]]:
        """The (fraction, value) pairs reported so far, those of an interrupted attempt included."""

    def built(self, config: JsonDict) -> None:
        """Everything is built; `config` holds the values found in the objects."""

    def report(self, step: float, value: float, seconds: float | None = None) -> None:
        """An evaluation: fraction of the budget, value, and seconds of training until then (None: as measured here)."""

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        """Metrics at a number of environment steps."""

    def note(self, text: str) -> None:
        """Something worth knowing, for people: a line."""

    def ends(self, reason: str, used: float) -> None:
        """The run ends by itself, before its budget does: what it reports from now on is its last value.

        Args:
            reason: For people.
            used: The share of its budget that it has used.
        """

    def alive(self, progress: float) -> None:
        """A sign of life, in short intervals: done part of the budget."""

    def check(self) -> None:
        """Ends the run if that was asked for, also while it is made; cheap enough for each step, no sign of life."""


class ControllerLine(Protocol):
    """The controller as a trial sees it: in another process, or in this one."""

    @property
    def stop_reason(self) -> str:
        """Why the line says "stop"."""

    def send(self, message: Message) -> None:
        """Sends a message."""

    def wait_for_verdict(self) -> Verdict:
        """Waits for the answer to the report sent last; "stop" where none will come."""

    def asks_to_stop(self) -> bool:
        """Whether the trial is to end. Does not wait."""
