"""The study as one watches it in a terminal: gathers what the live table shows."""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from rich.console import Console

from tuner.executors.base import Event, TrialProgress, TrialReported
from tuner.reporting.study_progress import RunningRun, Schedule, StudyTally
from tuner.reporting.terminal import LiveTable
from tuner.results.records import SCREEN, RunRecord
from tuner.study.definition import StudyDefinition
from tuner.study.run_registry import Run
from tuner.study.watching.study_listener import StudyListener


@dataclass
class _Row:
    """A run under way, as it is shown."""

    run: Run
    began: float
    progress: float | None = None
    value: float | None = None


class LiveDisplay(StudyListener):
    """Keeps the live table up to date.

    Args:
        table: Shows it.
        definition: The study.
        parallel: Runs at a time, for the time left.
    """

    def __init__(self, table: LiveTable, definition: StudyDefinition, parallel: int) -> None:
        self._table = table
        self._title = f"{definition.name}: {definition.subject}"
        self._definition, self._settings = definition, definition.settings
        self._part_names = definition.part_names
        self._schedule = Schedule(definition.first_stage, self._planned(definition.settings.num_trials), parallel)
        self._began = time.monotonic()
        self._tally = StudyTally()
        self._rows: dict[str, _Row] = {}

    def on_note(self, text: str) -> None:
        """Printed above the table, where it stays."""
        self._table.note(text)

    def on_stage(self, stage: str, num_runs: int, records: Sequence[RunRecord]) -> None:
        """Takes in what an earlier session has done, and what of the plan holds no longer."""
        totals = self._planned(num_runs) if stage == SCREEN else self._schedule.totals
        shown = stage if num_runs else self._schedule.stage
        self._schedule = replace(self._schedule, stage=shown, totals={**totals, stage: num_runs})
        for record in records:
            self._tally.add(record)
        self._update()

    def on_start(self, run: Run) -> None:
        """A new row."""
        self._rows[run.key] = _Row(run, time.monotonic())
        self._update()

    def on_event(self, run: Run, event: Event) -> None:
        """How far the run is, and what it scores."""
        row = self._rows[run.key]
        if isinstance(event, TrialProgress):
            row.progress = self._of_whole(run, event.progress)
        elif isinstance(event, TrialReported):
            row.value = event.value
            row.progress = self._of_whole(run, event.step) if 0.0 <= event.step <= 1.0 else row.progress
        self._update()

    def on_pause(self, run: Run, reason: str) -> None:
        """The row goes; a crash is noted."""
        self._rows.pop(run.key, None)
        if run.is_retried:
            self._table.note(f"{run.title}: {reason}")
        self._update()

    def on_end(self, run: Run, record: RunRecord) -> None:
        """The row goes, the run counts; a failure is noted."""
        self._rows.pop(run.key, None)
        if not record.environment:
            self._tally.add(record)
        if record.failed and record.outcome is not None:
            self._table.note(f"{run.title} {record.outcome.value.replace('_', ' ')}: {record.reason}")
        self._update()

    def on_whole(self, record: RunRecord) -> None:
        """The run counts."""
        self._tally.add(record)
        self._update()

    def _of_whole(self, run: Run, progress: float) -> float:
        """How far a run is, the environments that it has behind it included."""
        if not run.environment:
            return progress
        return (self._part_names.index(run.environment) + progress) / len(self._part_names)

    def _planned(self, num_trials: int) -> dict[str, int]:
        """Runs of each stage, if the search has a number of trials."""
        definition = replace(self._definition, settings=replace(self._settings, num_trials=num_trials))
        return {plan.stage: plan.num_runs for plan in definition.plan(num_trials)}

    def _update(self) -> None:
        now = time.monotonic()
        running = [
            RunningRun(
                f"{row.run.label} in {row.run.environment}" if row.run.environment else row.run.label,
                row.run.seed,
                row.progress,
                row.value,
                now - row.began,
                row.run.host,
            )
            for row in self._rows.values()
        ]
        progress = self._tally.progress(self._title, self._schedule, running, now - self._began)
        budget_s = self._settings.budget_s
        if budget_s is not None and progress.seconds_left is not None:  # screening ends in time, whatever is planned
            left = min(progress.seconds_left, max(0.0, budget_s - progress.seconds))
            progress = replace(progress, seconds_left=left)
        self._table.update(progress)


@contextmanager
def study_display(
    console: Console | None, definition: StudyDefinition, parallel: int, kind: type[LiveDisplay] = LiveDisplay
) -> Iterator[StudyListener]:
    """A listener that shows how the study goes; without a console, one that shows nothing."""
    if console is None:
        yield StudyListener()
    else:
        with LiveTable(console) as table:
            yield kind(table, definition, parallel)
