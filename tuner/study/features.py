"""Changes of a feature to a study, and the facts it derives from its trials."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import optuna
from optuna.pruners import BasePruner
from optuna.trial import FrozenTrial

from tuner.features import nothing, parts
from tuner.results.metric import Rescale, as_it_is
from tuner.results.records import SCREEN, Descent, RunRecord
from tuner.study.definition import Candidate, StudyDefinition
from tuner.study.dispatch import Judge, Stage
from tuner.study.run_registry import Run, RunRegistry
from tuner.study.study_errors import StudyError
from tuner.study.watching.study_listener import StudyListener
from tuner.trackers.base import RunInfo
from tuner.trial.messages import JsonDict

Probe = Callable[[StudyDefinition, int], float | None]
"""Measures a random policy; probes of different numbers leave each other alone."""


class Selection(Protocol):
    """Selection of the configurations that go on from stage to stage."""

    def entrants(self, screened: Sequence[RunRecord], count: int) -> tuple[RunRecord, ...]:
        """Those that go on from the screening stage, best first."""

    def chosen(
        self, confirmed: Sequence[RunRecord], candidates: Sequence[RunRecord], raced: Sequence[RunRecord] = ()
    ) -> tuple[RunRecord, ...]:
        """The candidates that the study chooses, the winner first; empty if none has come to its end."""

    def kept(self, winners: Sequence[RunRecord]) -> Mapping[str, object]:
        """Entries of the choice that the storage keeps besides the winner."""


class ScreenJudge(Judge, Protocol):
    """Ends runs of the screening stage early."""

    def see(self, record: RunRecord) -> None:
        """Takes in a run that has ended."""


class Studies(Protocol):
    """The studies of a storage."""

    def names(self) -> list[str]:
        """Of all, the one with the latest activity first."""

    def find(self, name: str, stage: str = SCREEN) -> optuna.Study | None:
        """The Optuna study of a stage, or None."""


@dataclass(frozen=True)
class Bench:
    """The tools of a search.

    Attributes:
        definition: The study.
        study: Optuna's, of the first stage.
        listener: Gets the stages.
        later: Records of earlier sessions in the stages behind the search.
        run_stage: Brings runs to their ends.
        run_seeds: Runs configurations on the seeds of a stage.
        open_stage: Optuna's study of a stage.
        in_parts: Of a registry, its runs or what they are made of.
        nothing_confirmed: The error for that no candidate came to its end.
        fits: Whether one more run of confirmation leaves the test its share of a budget of time, by all runs so far.
        is_closed: Whether a budget has ended screening.
    """

    definition: StudyDefinition
    study: optuna.Study
    listener: StudyListener
    later: Callable[[], Iterable[RunRecord]]
    run_stage: Callable[[Stage], None]
    run_seeds: Callable[[str, list[Candidate], int], tuple[RunRecord, ...]]
    open_stage: Callable[[str], optuna.Study]
    in_parts: Callable[[RunRegistry], RunRegistry]
    nothing_confirmed: Callable[[], StudyError]
    fits: Callable[[Sequence[RunRecord]], bool]
    is_closed: Callable[[], bool]


def _as_it_was(about: RunInfo, descent: Descent | None, run: Run | RunRecord) -> RunInfo:
    del descent, run
    return about


def _all(
    definition: StudyDefinition, candidates: tuple[RunRecord, ...], runs: Sequence[RunRecord]
) -> tuple[RunRecord, ...]:
    del definition, runs
    return candidates


def _the_same(definition: StudyDefinition, pruner: BasePruner) -> BasePruner:
    del definition
    return pruner


@dataclass(frozen=True)
class InStudy:
    """Changes of a feature to a study, and the facts it derives from its trials.

    Attributes:
        worked_out: Facts by key, for a summary that may take seconds. Given the study of the screening stage or of a
            sweep, its space as `Space.describe` gives it, and whether higher values of the first objective are better.
        seen: Facts by key, for any summary, given the first stage, all studies of the storage and the folder.
        selection: Selects the configurations that go on, where that is not by the best score.
        eligible: Of configurations, given by their screening runs, those that may be chosen by their runs so far, in
            the same order; a `StudyError` where none may.
        before_end: Called with each trial of the first stage that is about to be closed, with all that is kept of it.
        pruner: Optuna's pruner, as it is asked.
        undecided: Entries of a choice in the storage by key, as they are while more trials may bring another.
        unpruned: Why no run of a study is pruned, as a sentence, given what the storage keeps as its definition; empty:
            runs may be.
        judge: Ends runs of the screening stage early in place of Optuna's pruner, given what is called with notes.
        why_pruned: The decision about that in a study, as a sentence; empty: there is none.
        used_where: When a rung is used, as the plan has it, behind "of a run, used"; empty: as Optuna's pruners are.
        rungs: The evaluations at which runs are compared, as the plan has them; none: those of the settings.
        best_jobs: The best of the good jobs of a sweep by number, given the losses of each; none: the first by losses.
        prepare: Measures what scores rest on, before the first trial, and keeps it with the first stage.
        leave: Called when a session ends, whatever ends it, unless the storage is lost.
        rescale: To what the parts of runs are scored by, as kept with the first stage; None: runs have no parts.
        check: Refuses a study that cannot be, by a `UserError`.
        find: Searches in place of screening, race and confirmation, and returns what is tested; nothing: these are run.
        decide: Runs some of what was screened again, in place of race and confirmation, and returns what is chosen, the
            winner first; nothing: these are run.
        first_stage: In place of screening, given what the storage keeps as the definition; empty: there is screening.
        tracked: The description of a run for trackers, where more is known than `RunInfo` holds.
        in_parts: The runs of a stage as their parts, where runs of this study have any.
        described: Properties that a study must not change while it goes on, by key.
        changed: Those of them that have changed, in words, given all that is kept of before, and as it is now.
        plan_rows: Of the plan, behind those of the space.
        unit: The scale of a score, added to the name of its metric; empty: the metric's own.
    """

    worked_out: Callable[[optuna.Study, JsonDict, bool], Mapping[str, object]] = nothing
    seen: Callable[[optuna.Study, Studies, Path], Mapping[str, object]] = nothing
    selection: Callable[[StudyDefinition], Selection | None] = nothing
    eligible: Callable[[StudyDefinition, tuple[RunRecord, ...], Sequence[RunRecord]], tuple[RunRecord, ...]] = _all
    before_end: Callable[[StudyDefinition, optuna.Study, FrozenTrial], object] = nothing
    pruner: Callable[[StudyDefinition, BasePruner], BasePruner] = _the_same
    undecided: Mapping[str, object] = field(default_factory=dict)
    unpruned: Callable[[JsonDict], str] = nothing
    judge: Callable[[StudyDefinition, optuna.Study, Callable[[str], object]], ScreenJudge | None] = nothing
    why_pruned: Callable[[optuna.Study], str] = nothing
    used_where: Callable[[StudyDefinition], str] = nothing
    rungs: Callable[[StudyDefinition], tuple[int, ...]] = nothing
    best_jobs: Callable[[Mapping[int, tuple[float, ...]]], Collection[int]] = nothing
    prepare: Callable[[StudyDefinition, optuna.Study, Probe], object] = nothing
    leave: Callable[[StudyDefinition, optuna.Study], object] = nothing
    rescale: Callable[[optuna.Study], Rescale | None] = nothing
    check: Callable[[StudyDefinition], object] = nothing
    find: Callable[[Bench], list[Candidate]] = nothing
    decide: Callable[[Bench, Sequence[RunRecord]], Sequence[RunRecord]] = nothing
    first_stage: Callable[[JsonDict], str] = nothing
    tracked: Callable[[RunInfo, Descent | None, Run | RunRecord], RunInfo] = _as_it_was
    in_parts: Callable[[RunRegistry, StudyDefinition, Rescale], RunRegistry | None] = nothing
    described: Callable[[StudyDefinition], JsonDict] = nothing
    changed: Callable[[JsonDict, JsonDict], Sequence[str]] = nothing
    plan_rows: Callable[[StudyDefinition], Sequence[tuple[str, str]]] = nothing
    unit: Callable[[optuna.Study], str] = nothing


def rescale_of(study: optuna.Study) -> Rescale:
    """To what the parts of runs are scored by, as kept with the first stage of a study."""
    return next(filter(None, (part.rescale(study) for part in parts(InStudy))), as_it_is)


def check_definition(definition: StudyDefinition) -> None:
    """Refuses a study that cannot be.

    Raises:
        UserError: Says what is wrong.
    """
    for part in parts(InStudy):
        part.check(definition)


def first_stage(about: JsonDict) -> str:
    """That which draws configurations, given what the storage keeps as the definition of a study."""
    return next(filter(None, (part.first_stage(about) for part in parts(InStudy))), SCREEN)


def why_unpruned(about: JsonDict) -> str:
    """Why no run of a study is pruned; empty: runs may be."""
    return next(filter(None, (part.unpruned(about) for part in parts(InStudy))), "")
