"""Passes what happens to the runs of a study on to trackers: one tracked run per trial, grouped by study."""

from dataclasses import replace
from pathlib import Path

from tuner.executors.base import Event, TrialEnded
from tuner.executors.tracked import TrackedRuns
from tuner.features import parts
from tuner.results.records import Descent, RunRecord
from tuner.runs.refill import EndedRun
from tuner.study.features import InStudy
from tuner.study.run_registry import Run
from tuner.study.storage.trial_records import descent_of
from tuner.study.watching.study_listener import StudyListener
from tuner.trackers.base import RunInfo, Tracker
from tuner.trial.messages import JsonDict, Outcome


class TrackingListener(StudyListener):
    """Called by the controller, so a run whose process crashed is closed with its exit code all the same.

    Args:
        tracker: Gets every run.
        study: Name of the group.
        total_steps: Environment steps of a run, to give reports their place on the trackers' axis.
        folder: Of the study.
    """

    def __init__(self, tracker: Tracker, study: str, total_steps: int, folder: Path) -> None:
        self._study = study
        self._total_steps = total_steps
        self._folder = folder
        self._runs = TrackedRuns(tracker)

    def on_event(self, run: Run, event: Event) -> None:
        """Opens the run when it is known where it is, and passes measurements on."""
        if not isinstance(event, TrialEnded):
            self._open(run)
            total_steps = int(self.config_of(run).get("training", {}).get("total_steps", self._total_steps))
            self._runs.pass_on(event, total_steps)

    def on_pause(self, run: Run, reason: str) -> None:
        """Closes the run if it goes on in another session only."""
        if run.last_attempt is Outcome.STOPPED:
            self._runs.close(run.key, 1, {"outcome": Outcome.STOPPED.value, "reason": reason})

    def on_end(self, run: Run, record: RunRecord) -> None:
        """Closes the run with what came of it, also one that ended before anybody heard of it."""
        self._open(run)
        outcome = record.outcome or Outcome.CRASHED
        self._runs.close(run.key, 0 if outcome.effects.succeeded else 1, final_values(record, outcome))

    def config_of(self, run: Run) -> JsonDict:
        """The configuration that trackers get."""
        return run.config

    def _open(self, run: Run) -> None:
        if run.key not in self._runs:
            self._runs.open(run.key, self.about(run))

    def about(self, run: Run) -> RunInfo:
        """The description of a run for trackers."""
        about = replace(_info_of(run, self._study, self.config_of(run)), group_folder=self._folder, host=run.host)
        return _told(about, descent_of(run.trial.user_attrs), run)


def ended_trial(record: RunRecord, study: str, config: JsonDict, folder: Path) -> EndedRun:
    """A run of a study as trackers knew it while it ran, from what the storage knows.

    Args:
        record: Of the run.
        study: Its study.
        config: The run's.
        folder: Where it is.
    """
    outcome = record.outcome or Outcome.CRASHED
    about = replace(_info_of(record, study, config), folder=folder, host=record.host)
    about = _told(about, record.descent, record)
    return EndedRun(about, 0 if outcome.effects.succeeded else 1, final_values(record, outcome))


def final_values(record: RunRecord, outcome: Outcome) -> dict[str, object]:
    """Final values of a run for trackers."""
    values: dict[str, object] = {
        "outcome": outcome.value,
        "reason": record.reason,
        "value": record.value,
        **record.scores,
    }
    if record.curve:
        values["best_return"] = max(value for _, value in record.curve)
    return values


def _told(about: RunInfo, descent: Descent | None, run: Run | RunRecord) -> RunInfo:
    for part in parts(InStudy):
        about = part.tracked(about, descent, run)
    return about


def _info_of(run: Run | RunRecord, study: str, config: JsonDict) -> RunInfo:
    key, tags = f"{run.stage}/{run.number}", [run.stage, run.label]
    name = key if run.label == f"trial {run.number}" else f"{key} ({run.label})"
    if run.environment:
        name = f"{name} in {run.environment}"
        tags.append(run.environment)
    return RunInfo(name, study, config, Path(run.folder), tuple(tags), run.stage)
