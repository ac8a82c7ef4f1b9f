"""The jobs of a sweep, and the sweep itself, as trackers know them; only of an application that says which to tell."""

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Protocol

from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from tuner.errors import UserError
from tuner.executors.base import Event
from tuner.results.number_format import override_words
from tuner.results.records import RunRecord, StudySummary
from tuner.study import StudyDefinition
from tuner.study.run_registry import Run
from tuner.study.storage.trial_records import RUN_ATTRIBUTE
from tuner.study.sweep.sweep_study import JobResult, SweepListener
from tuner.study.watching.study_run import StudyRunListener
from tuner.study.watching.trial_tracking import TrackingListener
from tuner.sweeper.hydra_job import own_part
from tuner.sweeper.sweep_plan import PlannedSweep
from tuner.trackers.base import RunInfo, Tracker
from tuner.trial.messages import JsonDict


class TrackedApp(Protocol):
    """A task function whose jobs are sent to trackers."""

    def sweep_tracker(self, config: DictConfig) -> Tracker:
        """The trackers of a sweep with this config."""

    def run_config(self, config: DictConfig) -> JsonDict:
        """The run's configuration that identifies a job with this config."""


@contextmanager
def tracking(planned: PlannedSweep, definition: StudyDefinition) -> Iterator["SweepTracking | None"]:
    """Tells trackers of a sweep for the time of a block; nothing for an application that names none.

    Args:
        planned: The sweep.
        definition: Of its study, under its final name.
    """
    app = planned.app.task_function
    if not hasattr(app, "sweep_tracker"):
        yield None
        return
    with closing(app.sweep_tracker(planned.app.config)) as tracker:
        told = SweepTracking(planned, definition, tracker)
        try:
            yield told
        except BaseException as error:
            told.on_failure(error)
            raise


class SweepTracking(SweepListener):
    """One tracked run for each job, and one for the sweep.

    Args:
        planned: The sweep.
        definition: Of its study.
        tracker: Gets all events.
    """

    def __init__(self, planned: PlannedSweep, definition: StudyDefinition, tracker: Tracker) -> None:
        self._planned = planned
        self._definition = definition
        self._tracker = tracker
        self._jobs: _JobTracking | None = None
        self._whole: StudyRunListener | None = None

    def on_folder(self, folder: Path) -> None:
        """Now it is known where everything is."""
        self._jobs = _JobTracking(self._planned, self._tracker, self._definition.name, folder)
        maximised = self._planned.sweep.directions[0] == "maximize"
        self._whole = StudyRunListener(
            self._tracker, self._definition, folder, maximised=maximised, columns=self._jobs.shared()
        )

    def on_stage(self, stage: str, num_runs: int, records: Sequence[RunRecord]) -> None:
        """The sweep begins, or goes on."""
        assert self._whole is not None
        self._whole.on_stage(stage, num_runs, records)

    def on_event(self, run: Run, event: Event) -> None:
        """A job has measured something."""
        assert self._jobs is not None
        self._jobs.on_event(run, event)

    def on_pause(self, run: Run, reason: str) -> None:
        """A job is to go on later."""
        assert self._jobs is not None
        self._jobs.on_pause(run, reason)

    def on_end(self, run: Run, record: RunRecord) -> None:
        """A job has ended."""
        assert self._jobs is not None
        assert self._whole is not None
        self._jobs.on_end(run, record)
        self._whole.on_end(run, record)

    def on_summary(self, summary: StudySummary, best: Sequence[JobResult]) -> None:
        """The sweep is done.

        Args:
            summary: Of its study.
            best: Its best jobs.
        """
        assert self._jobs is not None
        assert self._whole is not None
        overrides = self._planned.space.overrides(best[0].params)
        self._whole.on_result(summary, self._jobs.composed(best[0].number, overrides))

    def on_failure(self, error: BaseException) -> None:
        """The sweep ends before it is done."""
        if self._whole is not None:
            self._whole.__exit__(type(error), error, error.__traceback__)


class _JobTracking(TrackingListener):
    """A job is named by what was searched for it, and has the config that its process composes."""

    def __init__(self, planned: PlannedSweep, tracker: Tracker, name: str, folder: Path) -> None:
        total_steps = OmegaConf.select(planned.app.config, "training.total_steps", default=0)
        super().__init__(tracker, name, int(total_steps), folder)
        self._planned = planned
        self._configs: dict[str, JsonDict] = {}

    def composed(self, number: int, overrides: Sequence[str]) -> JsonDict:
        """The config of a job; its overrides, if that cannot be composed or resolved here.

        Hydra's own state is left alone: a job that runs in this process has it.
        """
        try:
            return self._described(self._planned.app.compose(number, overrides))
        except (HydraException, OmegaConfBaseException, UserError):
            return {"overrides": list(overrides)}

    def shared(self) -> JsonDict:
        """Settings that all jobs share, as each of them shows it; empty where that cannot be resolved without a job."""
        try:
            return self._described(self._planned.app.config)
        except (HydraException, OmegaConfBaseException, UserError):
            return {}

    def _described(self, config: DictConfig) -> JsonDict:
        described: JsonDict = self._planned.app.task_function.run_config(own_part(config))  # type: ignore[attr-defined]
        return described

    def config_of(self, run: Run) -> JsonDict:
        """As its process composes it; once for each job that is open."""
        if run.key not in self._configs:
            self._configs[run.key] = self.composed(run.number, run.config["overrides"])
        return self._configs[run.key]

    def about(self, run: Run) -> RunInfo:
        """Named by its overrides."""
        values: JsonDict = run.trial.user_attrs[RUN_ATTRIBUTE]["values"]
        words = override_words(values)
        job_type = str(self._planned.app.config.hydra.job.name)
        config, folder = self.config_of(run), self._folder
        return RunInfo(
            " ".join(words), self._study, config, run.folder, words, job_type, group_folder=folder, host=run.host
        )

    def on_end(self, run: Run, record: RunRecord) -> None:
        """Closes it."""
        super().on_end(run, record)
        self._configs.pop(run.key, None)
