"""Interface of a tracker: it is notified when a run starts, of its metrics, and of its end.

Trackers run in the controller's process, never in a trial. None of their methods may fail or delay a run: what goes
wrong with a tracker is one logged error.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Protocol, TypeVar

from tuner.trial.messages import JsonDict

logger = logging.getLogger(__name__)
_T = TypeVar("_T")


@dataclass(frozen=True)
class RunInfo:
    """A run as trackers know it.

    Attributes:
        name: shown to people, "screen/7" or "trial 7 seed 3".
        group: what it belongs to: the study's name.
        config: everything the run was made with, its seed included.
        folder: the run's folder.
        tags: free words.
        job_type: what kind of run within the group: the stage.
        group_folder: where a tracker may keep files of all runs of the group side by side; None: in `folder`. It writes
            nowhere else unless it was given a directory of its own.
        host: the machine that it runs on, if that is another one than this.
        part: what it is a part of, for trackers that show runs in parts as one.
    """

    name: str
    group: str
    config: JsonDict
    folder: Path
    tags: tuple[str, ...] = ()
    job_type: str = "train"
    group_folder: Path | None = None
    host: str = ""
    part: "PartOfRun | None" = None


@dataclass(frozen=True)
class PartOfRun:
    """That a run goes on with what another one was about, as trials may that train one agent in turn.

    Attributes:
        whole: all of it together; its folder tells one whole from another.
        begins_with: what is different in this part, as a row of the whole's history.
    """

    whole: RunInfo
    begins_with: Mapping[str, float]


@dataclass(frozen=True)
class Table:
    """A table among the final values of a run; a tracker that cannot show tables leaves it out.

    Attributes:
        columns: headings.
        rows: one value for each column: numbers, texts, None.
    """

    columns: tuple[str, ...]
    rows: tuple[tuple[object, ...], ...]


class RunTracker(Protocol):
    """One run being tracked. Called from one thread."""

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        """Records measurements.

        Args:
            step: number of environment steps, not decreasing within a run.
            metrics: name -> value; may be not finite.
        """

    def finish(self, exit_code: int = 0, summary: Mapping[str, object] | None = None) -> None:
        """The run has ended; nothing may be logged after that.

        Args:
            exit_code: 0 for a run that did what it should (a pruned one included), else 1.
            summary: final values: score, outcome, reason. JSON types, or a `Table`.
        """


class Tracker(Protocol):
    """Starts tracking runs, several at a time."""

    def start_run(self, info: RunInfo) -> RunTracker:
        """Begins a run, or continues one whose folder was tracked before."""

    def close(self, timeout_s: float = 10.0) -> None:
        """Delivers what is still under way, for at most `timeout_s` seconds."""


class TrackerGroup:
    """Several trackers as one. One that raises is disabled, with one logged error; the others and the runs go on.

    Args:
        trackers: notified in this order; none at all is allowed and does nothing.
    """

    def __init__(self, trackers: Sequence[Tracker]) -> None:
        self._members = tuple(_Member(tracker) for tracker in trackers)

    def start_run(self, info: RunInfo) -> RunTracker:
        """Begins the run with every tracker."""
        begun = ((member, member.ask(partial(member.tracker.start_run, info))) for member in self._members)
        return _RunGroup(tuple((member, run) for member, run in begun if run is not None))

    def close(self, timeout_s: float = 10.0) -> None:
        """Closes every tracker, each within `timeout_s` seconds."""
        for member in self._members:
            member.ask(partial(member.tracker.close, timeout_s))


@dataclass
class _Member:
    """A tracker of a group, kept apart from the others."""

    tracker: Tracker
    failed: bool = False

    def ask(self, call: Callable[[], _T]) -> _T | None:
        """Makes the call unless one has failed before; returns its answer, None if there is none."""
        if self.failed:
            return None
        try:
            return call()
        except Exception:  # whatever it is: it may be anybody's code, and measurements are not worth a run
            self.failed = True
            name = type(self.tracker).__name__
            logger.exception("%s has failed and is disabled; training goes on", name)
            return None


@dataclass(frozen=True)
class _RunGroup:
    runs: tuple[tuple[_Member, RunTracker], ...]

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        for member, run in self.runs:
            member.ask(partial(run.log, step, metrics))

    def finish(self, exit_code: int = 0, summary: Mapping[str, object] | None = None) -> None:
        for member, run in self.runs:
            member.ask(partial(run.finish, exit_code, summary))
