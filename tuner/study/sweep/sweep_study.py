"""A sweep of jobs as one Optuna study.

The stages of `tuner tune` have no part in it; asking, dispatching, judging ends and telling are the same.
"""

import math
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

import optuna
from optuna.pruners import BasePruner, NopPruner
from optuna.samplers import BruteForceSampler, GridSampler
from optuna.study import StudyDirection
from optuna.trial import TrialState

from tuner.errors import UserError
from tuner.executors.base import Executor
from tuner.features import parts
from tuner.results.records import SCREEN
from tuner.study.control import LOCK_FILE, Interrupts, sole_controller
from tuner.study.definition import StudyDefinition
from tuner.study.dispatch import Dispatcher, Stage
from tuner.study.features import InStudy
from tuner.study.sampling.sampler_factory import SamplerFactory, SeededByTrial, make_sampler, require_objectives
from tuner.study.storage.homes import is_home
from tuner.study.storage.ownership import OWNER, Ownership, refuse_another
from tuner.study.storage.retries import StorageLostError
from tuner.study.storage.store import StudyStore, begin_or_continue
from tuner.study.storage.trial_records import OUTCOME_ATTRIBUTE, RUN_ATTRIBUTE
from tuner.study.sweep.job_registry import JobEndRules, JobJudge, Jobs, SweepRegistry
from tuner.study.watching.study_listener import StudyListener
from tuner.trial.messages import JsonDict, Outcome

Direction: TypeAlias = Literal["minimize", "maximize"]

SWEEP_FOLDER: Final = "sweep_folder"
"""Attribute of the study: where the folders of its jobs are."""

RETURNED: Final = "returned"
"""Fact of the study: what its score is, where that is not what a job returned."""

DEFAULT_NUM_TRIALS: Final = 20
_EXHAUSTIBLE = (GridSampler, BruteForceSampler)


@dataclass(frozen=True)
class JobResult:
    """A good job.

    Attributes:
        number: Of its trial.
        params: Its searched values.
        values: Its objectives.
        subdir: Its folder in that of the sweep.
    """

    number: int
    params: JsonDict
    values: tuple[float, ...]
    subdir: str


def folder_of_sweep(study: optuna.Study, otherwise: Path) -> Path:
    """Where the jobs of a sweep are.

    Args:
        study: Of the sweep.
        otherwise: Where the storage names no folder, or one in which no sweep ever ran.
    """
    named = Path(study.user_attrs.get(SWEEP_FOLDER, otherwise))
    return named if (named / LOCK_FILE).is_file() else otherwise


def home_of_sweep(study: optuna.Study, otherwise: Path) -> Path:
    """The folder to write to: that which the storage names if it is known to be the sweep's."""
    named = folder_of_sweep(study, otherwise)
    return named if is_home(named, study.user_attrs.get(OWNER, {})) else otherwise


def best_jobs(study: optuna.Study) -> list[JobResult]:
    """The best job, or with more than one objective the best ones, by number."""
    complete = [
        trial
        for trial in study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))
        if trial.user_attrs.get(OUTCOME_ATTRIBUTE) == Outcome.COMPLETE
    ]
    signs = [1.0 if direction is StudyDirection.MINIMIZE else -1.0 for direction in study.directions]
    losses = {
        trial.number: tuple(sign * value for sign, value in zip(signs, trial.values, strict=True)) for trial in complete
    }
    first = sorted(losses, key=lambda number: (losses[number], number))[:1]
    kept = next(filter(None, (part.best_jobs(losses) for part in parts(InStudy))), first)
    return [
        JobResult(
            trial.number,
            trial.user_attrs[RUN_ATTRIBUTE]["values"],
            tuple(trial.values),
            trial.user_attrs[RUN_ATTRIBUTE]["subdir"],
        )
        for trial in complete
        if trial.number in kept
    ]


@dataclass(frozen=True)
class SweepSampler:
    """How the sampler of a sweep is made.

    Attributes:
        factory: A sampler class, or a partial of one.
        grid: All points of each parameter; None for a continuous one.
        num_objectives: Directions of the study.
        is_open: Whether jobs may have further parameters, which are not known before.
    """

    factory: SamplerFactory
    grid: dict[str, list[Any] | None] = field(default_factory=dict)
    num_objectives: int = 1
    is_open: bool = False

    @property
    def _kind(self) -> type:
        kind = getattr(self.factory, "func", self.factory)
        return kind if isinstance(kind, type) else object

    def total(self, num_trials: int | None) -> int:
        """How many jobs there will be: of a sampler that tries each once, no more than there are different ones.

        Args:
            num_trials: As many as asked for; None: all that there are, or 20 where there is no end to them.
        """
        if self.is_open or not issubclass(self._kind, _EXHAUSTIBLE):
            return DEFAULT_NUM_TRIALS if num_trials is None else num_trials
        num_distinct = self._num_distinct or 1  # endless many are refused by `make`
        return num_distinct if num_trials is None else min(num_trials, num_distinct)

    def each_once(self, num_trials: int | None) -> "SweepSampler | None":
        """One that tries each combination once, if there are as many trials as combinations, or more.

        It knows by their values which are left, so it goes on with what another sampler has begun.
        """
        if self.is_open or not self.grid or self._num_distinct is None or self._num_distinct > self.total(num_trials):
            return None
        return self if issubclass(self._kind, _EXHAUSTIBLE) else replace(self, factory=BruteForceSampler)

    @property
    def _num_distinct(self) -> int | None:
        """Combinations that there are; None: endless many."""
        if None in self.grid.values():
            return None
        return math.prod(len(points or ()) for points in self.grid.values())

    def make(self, seed: int, num_trials: int) -> SeededByTrial:
        """The sampler of a study that has a number of trials already.

        Raises:
            UserError: It cannot do what is asked of it.
        """
        kind = self._kind
        if issubclass(kind, GridSampler) and self.is_open:
            raise UserError(
                "GridSampler needs all parameters beforehand, and hydra.sweeper.custom_search_space adds some to each "
                "job: choose another hydra/sweeper/sampler, such as brute_force"
            )
        if issubclass(kind, _EXHAUSTIBLE):
            endless = [name for name, points in self.grid.items() if points is None]
            if endless:
                raise UserError(
                    f"{kind.__name__} tries every combination, but {endless[0]} has endless many values; "
                    f"give it steps, as in {endless[0]}=range(0,1,0.1), or choose another hydra/sweeper/sampler"
                )
            if issubclass(kind, GridSampler):
                return SeededByTrial(kind(self.grid, seed=seed), seed)  # type: ignore[arg-type]
        require_objectives(self.factory, self.num_objectives)
        try:
            return make_sampler(self.factory, seed, num_trials, None)
        except TypeError as error:
            raise UserError(f"hydra.sweeper.sampler cannot be made: {error}") from error


class SweepListener(StudyListener):
    """Gets besides where the jobs of a sweep are and which of them are the best."""

    def on_folder(self, folder: Path) -> None:
        """The sweep begins, or goes on, in this folder."""

    def on_results(self, folder: Path, best: Sequence[JobResult]) -> None:
        """The sweep ends for now: done, stopped or given up."""


@dataclass(frozen=True)
class Sweep:
    """One sweep, complete.

    Attributes:
        definition: Its study.
        directions: minimize or maximize, for each objective.
        jobs: Of the application.
        sampler: Makes its sampler.
        pruner: Optuna's; None: every job runs to its end, and what it reports is only kept.
    """

    definition: StudyDefinition
    directions: tuple[Direction, ...]
    jobs: Jobs
    sampler: SweepSampler
    pruner: BasePruner | None = None


class SweepRunner:
    """The one controller of a sweep.

    Args:
        sweep: The sweep to run.
        store: Where the study is kept.
        make_executor: Makes what runs the jobs; called only if there is something left to run.
        listener: Gets all events.
    """

    def __init__(
        self,
        sweep: Sweep,
        store: StudyStore,
        make_executor: Callable[[], AbstractContextManager[Executor]],
        listener: SweepListener,
    ) -> None:
        self._sweep = sweep
        self._store = store
        self._make_executor = make_executor
        self._listener = listener
        self._interrupts = Interrupts(store)

    def run(self, folder: Path) -> list[JobResult]:
        """Runs the sweep, or what is left of it.

        Args:
            folder: For the folders of its jobs. A sweep that is continued stays in the one that it began in.

        Returns:
            Its best jobs.

        Raises:
            StudyStopped: Asked to stop; the same call goes on later.
            UserError: It cannot begin, cannot go on as it began, or nothing works.
        """
        definition = self._sweep.definition
        single = len(self._sweep.directions) == 1
        pruner = self._sweep.pruner or NopPruner()
        refuse_another(self._store, definition, self._began_in(folder), watch=True)
        study = self._store.open(definition.name, SCREEN, pruner=pruner, directions=self._sweep.directions)
        began_in = self._began_in(folder)
        if began_in != folder:
            with suppress(OSError):  # if the new one was made, it is not needed; something may be in it
                folder.rmdir()
            folder = began_in
        ownership = Ownership(study, folder, self._store.file)
        with sole_controller(folder), self._interrupts.handling_signals(), ownership.lease():
            begin_or_continue(study, definition, self._store.url)
            study.set_user_attr(SWEEP_FOLDER, str(folder))
            num_trials = len(study.get_trials(deepcopy=False))
            study.sampler = self._sweep.sampler.make(definition.seed, num_trials)
            total = self._sweep.sampler.total(definition.settings.num_trials)
            registry = SweepRegistry(study, definition, self._sweep.jobs, folder, total)
            self._listener.on_folder(folder)
            self._listener.on_stage(SCREEN, total, registry.records())
            try:
                if not registry.is_done:
                    self._dispatch(registry, JobJudge() if single else None, ownership)
            except BaseException:
                with suppress(StorageLostError):
                    self._listener.on_results(folder, best_jobs(study))
                raise
            best = best_jobs(study)
            self._listener.on_results(folder, best)
            return best

    def _began_in(self, folder: Path) -> Path:
        """The folder of a sweep that is continued, if it is still there; else this one."""
        study = self._store.find(self._sweep.definition.name)
        return folder if study is None else home_of_sweep(study, folder)

    def _dispatch(self, registry: SweepRegistry, judge: JobJudge | None, ownership: Ownership) -> None:
        with self._make_executor() as executor:
            end_rules = JobEndRules(self._sweep.definition, registry)
            dispatcher = Dispatcher(end_rules, executor, self._interrupts, self._listener, ownership.heartbeat)
            dispatcher.restore(registry.records())
            dispatcher.run_stage(Stage(registry, judge))
