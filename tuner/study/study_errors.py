"""How a study can end without a result."""

from typing import Final

from tuner.errors import UserError
from tuner.results.number_format import counted


class StudyStopped(Exception):  # noqa: N818 - nothing went wrong
    """The study was asked to stop (Ctrl-C, SIGTERM) and did; the same command continues it.

    Attributes:
        num_open: Runs that stopped half-way and go on from their checkpoints.
    """

    def __init__(self, num_open: int, reason: str = "") -> None:
        super().__init__(f"stopped{f' by {reason}' if reason else ''} with {counted(num_open, 'run')} under way")
        self.num_open = num_open


STOPPED: Final = (StudyStopped, KeyboardInterrupt)
"""Exceptions that stop a study on request; the second one, if asked again while its trackers are closed."""


def how_it_stopped(stop: BaseException) -> str:
    """The message for one of these."""
    return f"{str(stop) or 'stopped'}; the same command goes on"


class StudyError(UserError):
    """The study cannot go on: too many failures in a row, or nothing left to choose from."""
