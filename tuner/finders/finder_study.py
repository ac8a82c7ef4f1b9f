"""A finder's study: combinations of what is compared, each run once in a process of its own."""

import hashlib
import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tuner.config.composition import plain_choice
from tuner.errors import UserError
from tuner.executors.base import Executor
from tuner.executors.executor_factory import make_executor
from tuner.executors.local import pickle_function
from tuner.executors.preload import Backend
from tuner.finders.finder_process import FINDING_FILE, FinderJob, Measured, lines_of
from tuner.results.protocol import StudySettings
from tuner.results.records import RunRecord
from tuner.study import Listeners, StudyDefinition, StudyListener, StudyStore
from tuner.study.run_registry import Run
from tuner.study.sweep.enumeration import enumeration, listed_space
from tuner.study.sweep.sweep_study import Direction, SweepListener, SweepRunner
from tuner.study.watching.trial_tracking import TrackingListener
from tuner.support.text_files import parse_json
from tuner.trackers.base import Tracker
from tuner.trial.context import TrialContext
from tuner.trial.messages import JsonDict, Limits, Outcome


@dataclass(frozen=True)
class FinderPlace:
    """Where a finder's runs take place and are kept.

    Attributes:
        storage: URL of the database; the same finder continues there where it was stopped. "memory" keeps nothing.
        folder: The folders of all runs go to FOLDER/NAME.
        name: Of the study; None: made of what is found out, so that the same search has the same name.
        parallel: Runs at a time, in processes of this machine.
        limits: Of such a run's resources. A run without a message for `silence_s` seconds counts as hung.
        executor: Runs the runs in place of these: a choice of the configuration group executor, plain, or a
            function that makes it.
        tracker: Gets every run.
        listener: Gets all events.
    """

    storage: str = "sqlite:///studies.db"
    folder: str | Path = "studies"
    name: str | None = None
    parallel: int = 2
    limits: Limits = field(default_factory=lambda: Limits(silence_s=600.0))
    executor: Callable[[], AbstractContextManager[Executor]] | Mapping[str, Any] | None = None
    tracker: Tracker | None = None
    listener: StudyListener | None = None

    def make_executor(self, backend: Backend) -> AbstractContextManager[Executor]:
        """The executor of the runs."""
        if callable(self.executor):
            return self.executor()
        if self.executor is not None:
            return make_executor(self.executor)
        local = plain_choice("executor", "local")
        return make_executor(local, parallel=self.parallel, backend=backend, limits=self.limits)


@dataclass(frozen=True)
class Plan:
    """Plan of a finder's study.

    Attributes:
        kind: Of the finder, for the name of the study.
        subject: Its subject, for people and for the name.
        about: All that makes this search what it is, plain; another such search is another study.
        points: The combined values, by name.
        job: Called with (context, point) in the process of each run; what it returns is its objective and its finding.
        directions: Of the objectives.
        backend: The framework that the processes import beforehand.
        seed: Of the order.
        num_steps: The step that trackers get for a report at 1: reports count from 1, or in shares of this.
    """

    kind: str
    subject: str
    about: JsonDict
    points: Mapping[str, Sequence[Any]]
    job: Callable[[TrialContext, JsonDict], Measured]
    directions: tuple[Direction, ...] = ("maximize",)
    backend: Backend = "none"
    seed: int = 0
    num_steps: int = 1

    @property
    def default_name(self) -> str:
        """The same for the same search."""
        text = json.dumps([self.about, {name: list(values) for name, values in self.points.items()}], sort_keys=True)
        return f"find-{self.kind}-{self.subject}-{hashlib.sha256(text.encode()).hexdigest()[:8]}"


@dataclass(frozen=True)
class FinderRun:
    """A run of the study as its finder sees it.

    Attributes:
        point: The combined values.
        outcome: How it ended.
        value: Its first objective; None unless it is complete.
        reason: One line for anything but a complete run.
        seconds: Wall time.
        folder: Of the run.
        data: Its measurements; empty unless it is complete.
    """

    point: Mapping[str, Any]
    outcome: Outcome
    value: float | None
    reason: str
    seconds: float
    folder: Path
    data: JsonDict

    @property
    def complete(self) -> bool:
        """It ran to its end and has a usable value."""
        return self.value is not None


class _Points:
    """Tells runs apart by what they combine."""

    def added(self, trial: object, values: JsonDict) -> JsonDict:
        """Nothing: points are given."""
        del trial, values
        return {}

    def overrides(self, values: JsonDict) -> list[str]:
        """The point, a line each."""
        return lines_of(values)

    def subdir(self, number: int, overrides: Sequence[str]) -> str:
        """Numbers, as points may hold anything."""
        del overrides
        return str(number)


class _Records(SweepListener):
    """Keeps what became of each run, and passes everything on."""

    def __init__(self, listeners: StudyListener) -> None:
        self._listeners = listeners
        self.records: dict[int, RunRecord] = {}
        for name in ("on_note", "on_start", "on_event", "on_pause"):
            setattr(self, name, getattr(listeners, name))

    def on_stage(self, stage: str, num_runs: int, records: Sequence[RunRecord]) -> None:
        self.records.update({record.number: record for record in records if record.outcome is not None})
        self._listeners.on_stage(stage, num_runs, records)

    def on_end(self, run: Run, record: RunRecord) -> None:
        self.records[record.number] = record
        self._listeners.on_end(run, record)


def run_plan(plan: Plan, workplace: FinderPlace) -> tuple[Path, list[FinderRun]]:
    """Runs the study, or what is left of it.

    Returns:
        Its folder, and what became of each run, by number. One that crashed or hung does not keep others from running.

    Raises:
        StudyStopped: Asked to stop; the same call goes on.
        UserError: The study cannot begin or go on, or no run came to a good end.
    """
    num_runs = math.prod(len(values) for values in plan.points.values())
    definition = StudyDefinition(
        name=workplace.name or plan.default_name,
        config={"finder": plan.kind, **plan.about},
        space=listed_space(plan.points),
        settings=StudySettings(metric="final", num_trials=num_runs, retries=0, max_failures=num_runs + 1),
        seed=plan.seed,
        agent=plan.subject,
        folder=Path(workplace.folder),
        function=pickle_function(FinderJob(plan.job)),
        probe=None,
    )
    sweep = enumeration(definition, plan.points, plan.directions, _Points())
    with (
        _listening(workplace, definition, plan.num_steps) as listener,
        StudyStore(workplace.storage, listener.on_note) as store,
    ):
        SweepRunner(sweep, store, lambda: workplace.make_executor(plan.backend), listener).run(
            definition.study_folder.absolute()
        )
    findings = [_finding(record) for _, record in sorted(listener.records.items())]
    if not any(finding.complete for finding in findings):
        said = "; ".join(dict.fromkeys(finding.reason or str(finding.outcome) for finding in findings))
        raise UserError(
            f"no run of {definition.name} came to a good end: {said}. What each of them said is in output.log in its "
            f"folder under {definition.study_folder}; mend it and begin another study with another name"
        )
    return definition.study_folder, findings


@contextmanager
def _listening(workplace: FinderPlace, definition: StudyDefinition, num_steps: int) -> Iterator[_Records]:
    listeners = [workplace.listener or StudyListener()]
    if workplace.tracker is not None:
        listeners.append(TrackingListener(workplace.tracker, definition.name, num_steps, definition.study_folder))
    try:
        yield _Records(Listeners(*listeners))
    finally:
        if workplace.tracker is not None:
            workplace.tracker.close()


def _finding(record: RunRecord) -> FinderRun:
    assert record.outcome is not None
    folder, complete = Path(record.folder), record.outcome is Outcome.COMPLETE and record.value is not None
    try:
        data = parse_json((folder / FINDING_FILE).read_bytes()) if complete else {}
    except (OSError, ValueError) as error:
        raise UserError(
            f"{folder / FINDING_FILE} is gone or damaged, so what was found before is not known: restore it, or begin "
            "another study with study.name=..."
        ) from error
    if not isinstance(data, dict):
        raise UserError(f"{folder / FINDING_FILE} is damaged: restore it, or begin another study with study.name=...")
    value = record.value if complete else None
    return FinderRun(record.params, record.outcome, value, record.reason, record.seconds, folder, data)
