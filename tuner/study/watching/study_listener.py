"""Listeners to the progress of a study: the live table, trackers."""

from collections.abc import Sequence

from tuner.executors.base import Event
from tuner.results.records import RunRecord
from tuner.study.run_registry import Run


class StudyListener:
    """Gets everything and does nothing by itself, so that a listener has only the methods that it needs."""

    def on_note(self, text: str) -> None:
        """Something the user should read once."""

    def on_stage(self, stage: str, num_runs: int, records: Sequence[RunRecord]) -> None:
        """A stage begins, or goes on: its total, and the runs it has already; the first gets those of all stages.

        A stage that turns out to be left out has a total of 0.
        """

    def on_start(self, run: Run) -> None:
        """A run begins, or goes on from its checkpoint."""

    def on_event(self, run: Run, event: Event) -> None:
        """The run's process said something."""

    def on_pause(self, run: Run, reason: str) -> None:
        """The run's process ended, but the run is to be continued: now after a crash, later after a stop."""

    def on_end(self, run: Run, record: RunRecord) -> None:
        """The run is over, or the part that the record is of."""

    def on_whole(self, record: RunRecord) -> None:
        """A run with parts is over in all of them."""


class Listeners(StudyListener):
    """Several listeners, notified one after the other."""

    def __init__(self, *listeners: StudyListener) -> None:
        self._listeners = listeners

    def on_note(self, text: str) -> None:
        """Passed on."""
        for listener in self._listeners:
            listener.on_note(text)

    def on_stage(self, stage: str, num_runs: int, records: Sequence[RunRecord]) -> None:
        """Passed on."""
        for listener in self._listeners:
            listener.on_stage(stage, num_runs, records)

    def on_start(self, run: Run) -> None:
        """Passed on."""
        for listener in self._listeners:
            listener.on_start(run)

    def on_event(self, run: Run, event: Event) -> None:
        """Passed on."""
        for listener in self._listeners:
            listener.on_event(run, event)

    def on_pause(self, run: Run, reason: str) -> None:
        """Passed on."""
        for listener in self._listeners:
            listener.on_pause(run, reason)

    def on_end(self, run: Run, record: RunRecord) -> None:
        """Passed on."""
        for listener in self._listeners:
            listener.on_end(run, record)

    def on_whole(self, record: RunRecord) -> None:
        """Passed on."""
        for listener in self._listeners:
            listener.on_whole(record)
