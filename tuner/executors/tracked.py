"""Runs of an executor as trackers know them."""

from collections.abc import Mapping

from tuner.executors.base import Event, TrialLogged, TrialReported
from tuner.runs.recorder import report_row
from tuner.trackers.base import RunInfo, RunTracker, Tracker


class TrackedRuns:
    """The tracked runs that are open, by the keys of their trials.

    Args:
        tracker: Gets every run.
    """

    def __init__(self, tracker: Tracker) -> None:
        self._tracker = tracker
        self._runs: dict[str, RunTracker] = {}
        self._steps: dict[str, int] = {}

    def __contains__(self, key: str) -> bool:
        return key in self._runs

    def open(self, key: str, info: RunInfo) -> None:
        """Begins a run; one that goes on after a crash is still open."""
        if key not in self._runs:
            self._runs[key] = self._tracker.start_run(info)

    def pass_on(self, event: Event, total_steps: int) -> None:
        """Logs what a run has measured.

        Args:
            event: Of an open run.
            total_steps: Environment steps of a run, to give reports their place on the trackers' axis.
        """
        if isinstance(event, TrialLogged):
            self._log(event.key, event.step, event.metrics)
        elif isinstance(event, TrialReported):
            self._log(event.key, *report_row(event.step, event.value, total_steps))

    def close(self, key: str, exit_code: int, summary: Mapping[str, object]) -> None:
        """Ends a run; nothing, if it is not open."""
        if key in self._runs:
            self._runs.pop(key).finish(exit_code, summary)
            self._steps.pop(key, None)

    def close_all(self, exit_code: int, summary: Mapping[str, object]) -> None:
        """Ends all runs that are open."""
        for key in list(self._runs):
            self.close(key, exit_code, summary)

    def _log(self, key: str, step: int, metrics: Mapping[str, float]) -> None:
        """Trackers want steps that do not decrease; a run that went back to a checkpoint repeats some."""
        self._steps[key] = max(self._steps.get(key, 0), step)
        self._runs[key].log(self._steps[key], metrics)
