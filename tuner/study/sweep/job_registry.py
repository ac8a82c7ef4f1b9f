"""The book of a sweep: its jobs, and what comes of each, which is what it returned, in its own units and directions."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import optuna
from optuna.study import StudyDirection
from optuna.trial import FrozenTrial, TrialState

from tuner.config.paths import flatten
from tuner.errors import UserError
from tuner.results.protocol import robust_worst
from tuner.results.records import SCREEN, RunRecord
from tuner.study.definition import StudyDefinition
from tuner.study.enqueued import admits
from tuner.study.optuna_internals import begin_loop, suggest
from tuner.study.run_checks import config_mismatch
from tuner.study.run_registry import Run, RunEnd, RunRegistry
from tuner.study.sampling.stored_values import inside
from tuner.study.storage.trial_records import (
    ATTEMPTS_ATTRIBUTE,
    OUTCOME_ATTRIBUTE,
    RUN_ATTRIBUTE,
    carry_values,
    record_of,
)
from tuner.trial import folder as files
from tuner.trial.messages import MAX_COUNT, JsonDict, Outcome, TrialResult, Verdict

_STEPS_OF_A_FRACTION = 1000


class Jobs(Protocol):
    """The application whose jobs a study runs, as the study needs it."""

    def overrides(self, values: JsonDict) -> list[str]:
        """The overrides of a job with these values."""

    def added(self, trial: optuna.Trial, values: JsonDict) -> JsonDict:
        """Values that the application itself draws for a job, besides those of the space, by the keys of overrides."""

    def subdir(self, number: int, overrides: Sequence[str]) -> str:
        """Where the application wants the folder of a job, relative to that of the sweep."""


class SweepRegistry(RunRegistry):
    """The jobs of a sweep.

    Args:
        study: Where they are kept.
        definition: The study.
        jobs: Of the application.
        folder: Of the sweep.
        total: How many jobs are wanted in all.
    """

    def __init__(self, study: optuna.Study, definition: StudyDefinition, jobs: Jobs, folder: Path, total: int) -> None:
        super().__init__(study, SCREEN, definition)
        self._jobs = jobs
        self._sweep_folder = folder
        self._distributions = definition.space.distributions()
        self.total = total
        trials = study.get_trials(deepcopy=False)
        self._num_entered = sum(trial.state is not TrialState.WAITING for trial in trials)
        self._subdirs = {trial.user_attrs[RUN_ATTRIBUTE]["subdir"] for trial in trials if _is_complete_entry(trial)}
        begin_loop(study)  # samplers that have tried everything stop the study

    @property
    def is_done(self) -> bool:
        """Whether nothing is left to run."""
        return self._num_entered >= self.total and not self.num_open

    def next_run(self) -> Run | None:
        """Samples the next job, up to the total."""
        while self._num_entered < self.total:
            trial = self.study.ask()
            self._num_entered += 1
            if self._admits(trial):
                return self._run(trial)
        return None

    def _admits(self, trial: optuna.Trial) -> bool:
        return admits(self.study, trial, self._definition.space)

    def _run(self, trial: optuna.Trial) -> Run:
        drawn = {name: suggest(trial)(name, distribution) for name, distribution in self._distributions.items()}
        space = self._definition.space
        values = {parameter.path: parameter.value(drawn[parameter.name], {}) for parameter in space.parameters}
        added = self._jobs.added(trial, values)
        values |= added
        overrides = self._jobs.overrides(values)  # those in the storage may be anybody's
        about: JsonDict | None = trial.user_attrs.get(RUN_ATTRIBUTE)
        _check_added(trial, added, about)
        if about is None:
            subdir = self._own_subdir(trial.number, overrides)
            about = {"label": f"trial {trial.number}", "seed": 0, "values": values}
            about |= {"overrides": overrides, "subdir": subdir}
            carry_values(trial, values)
            trial.set_user_attr(RUN_ATTRIBUTE, about)
        subdir = inside(about["subdir"])
        config = {"overrides": overrides, "sweep_dir": str(self._sweep_folder), "subdir": subdir}
        return Run(
            trial,
            SCREEN,
            label=about["label"],
            seed=about["seed"],
            values={"overrides": overrides},  # by these a folder is known to be this job's
            config=config,
            folder=self._sweep_folder / subdir,
            attempts=list(trial.user_attrs.get(ATTEMPTS_ATTRIBUTE, [])),
        )

    def _own_subdir(self, number: int, overrides: Sequence[str]) -> str:
        """A folder that no other job has: hydra.sweep.subdir need not tell jobs of the same values apart."""
        wanted = Path(self._jobs.subdir(number, overrides))
        subdir = str(number) if wanted == Path() else str(wanted)
        if subdir in self._subdirs:
            subdir = f"{subdir}_{number}"
        self._subdirs.add(subdir)
        return subdir

    def records(self) -> tuple[RunRecord, ...]:
        """All jobs entered so far."""
        return tuple(map(self._record, self.study.get_trials(deepcopy=False)))

    def worst(self) -> tuple[float, ...]:
        """The worst value seen of each objective, see `robust_worst`; empty if none was."""
        trials = self.study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))
        finished = [trial for trial in trials if trial.user_attrs.get(OUTCOME_ATTRIBUTE) == Outcome.COMPLETE]
        worst = []
        for index, direction in enumerate(self.study.directions):
            sign = -1.0 if direction is StudyDirection.MINIMIZE else 1.0
            usual, seen = ([sign * trial.values[index] for trial in some] for some in (finished, trials))
            lowest = robust_worst(usual, seen)
            if lowest is None:
                return ()
            worst.append(sign * lowest)
        return tuple(worst)

    def _record(self, trial: FrozenTrial) -> RunRecord:
        return record_of(trial, SCREEN, self._sweep_folder, other_objectives(self.study))


def other_objectives(study: optuna.Study) -> tuple[str, ...]:
    """Names for what a job returns behind its first number."""
    return tuple(f"objective {index}" for index in range(2, len(study.directions) + 1))


def _check_added(trial: optuna.Trial, added: JsonDict, about: JsonDict | None) -> None:
    """Refuses to go on with a job for which the application draws other values now."""
    for key, value in added.items():
        before = value if about is None else about["values"].get(key)
        if before != value:
            raise UserError(
                f"job {trial.number} was begun with {key}={before}, and custom_search_space gives {key}={value} now: "
                "begin another sweep with another study_name"
            )


def _is_complete_entry(trial: FrozenTrial) -> bool:
    return "subdir" in trial.user_attrs.get(RUN_ATTRIBUTE, {})


class JobJudge:
    """Answers `tuner.report` as Optuna's pruner says. Its steps are whole numbers: fractions count in thousandths."""

    def answer(self, registry: RunRegistry, run: Run, step: float) -> Verdict:
        """The verdict on a job that has just reported."""
        in_fractions = any(not float(known).is_integer() for known in run.curve)
        point = round(step * _STEPS_OF_A_FRACTION) if in_fractions else int(step)
        point = -1 if point > MAX_COUNT else point  # no database stores it
        return "prune" if point >= 0 and registry.report(run, point, run.curve[step]) else "continue"

    def catch_up(self, registry: RunRegistry, run: Run) -> None:
        """Enters what a job reported while nobody listened."""
        for step, _ in run.points:
            self.answer(registry, run, step)


class JobEndRules:
    """Jobs: what comes of one is what it returned.

    Args:
        definition: The study.
        registry: Of its jobs.
    """

    def __init__(self, definition: StudyDefinition, registry: SweepRegistry) -> None:
        self.definition = definition
        self._registry = registry

    def see(self, record: RunRecord) -> None:
        """Nothing: the registry knows the values of all jobs."""

    def mismatch(self, run: Run, used: JsonDict) -> str:
        """By those of the sampled values that a job says something about; choices of groups are none of its config."""
        values: JsonDict = run.trial.user_attrs[RUN_ATTRIBUTE]["values"]
        return config_mismatch({path: values[path] for path in flatten(used) if path in values}, used)

    def review(self, run: Run, result: TrialResult) -> TrialResult:
        """The result as it is: a job need not report anything."""
        del run
        return result

    def complete(self, run: Run, seconds: float) -> RunEnd:
        """With the values that it wrote down, if they are as many numbers as asked for."""
        about = files.read_objective(run.folder)
        if "complaint" in about:
            return RunEnd(Outcome.CRASHED, None, about["complaint"], seconds)
        values = tuple(map(float, about["values"]))
        if not all(map(math.isfinite, values)):
            shown = ", ".join(map(str, values))
            diverged = TrialResult(Outcome.DIVERGED, f"the task function returned {shown}")
            return self.penalised(run, diverged, seconds)
        return RunEnd(Outcome.COMPLETE, values[0], "", seconds, values[1:])

    def penalised(self, run: Run, result: TrialResult, seconds: float) -> RunEnd:
        """With the worst there was of each objective, so that the sampler does not go there again."""
        del run
        worst = self._registry.worst()
        return RunEnd(result.outcome, worst[0] if worst else None, result.reason, seconds, worst[1:])
