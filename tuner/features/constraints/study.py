"""Constraints in a study: samplers know them, and only feasible configurations are chosen."""

from collections.abc import Collection, Sequence
from typing import Any

import optuna
from optuna.pruners import BasePruner, NopPruner
from optuna.trial import FrozenTrial

from note_rl.support.near_names import nearest
from tuner.errors import UserError
from tuner.features.constraints.facts import CONSTRAINTS
from tuner.features.constraints.feasibility import Feasibility
from tuner.features.constraints.inequalities import KEY, Constraint, is_of_curve, parse_constraints
from tuner.results.metric import SECONDS
from tuner.results.number_format import join_words
from tuner.results.records import SCREEN, RunRecord
from tuner.runs.functions import function_name
from tuner.runs.logged_names import logged_names, without_number
from tuner.study.definition import TRAINING_ENTRY, StudyDefinition
from tuner.study.features import InStudy
from tuner.study.optuna_internals import handle_of
from tuner.study.storage.store import DEFINITION
from tuner.study.storage.trial_records import (
    ENDING_ATTRIBUTE,
    OUTCOME_ATTRIBUTE,
    curve_of,
    logged_of,
)
from tuner.study.study_errors import StudyError
from tuner.support.names import did_you_mean, one_of, some_of
from tuner.trial.folder import read_logged
from tuner.trial.messages import JsonDict, Outcome


def _check(definition: StudyDefinition) -> None:
    constraints = parse_constraints(definition.settings.constraints)
    if not constraints:
        return
    if definition.search is not None:
        raise UserError(
            f"{KEY} has no meaning with a search by {definition.search.name}, whose members change while they train: "
            "use study=quick or study=full"
        )
    if any(plan.shared_runs is not None for plan in definition.plan()):
        raise UserError(
            f"{KEY}: the model of study.decision=model does not take constraints; type study.decision=confirmed, and "
            "another study.name=... if the study was begun with the model"
        )
    logged = [one for one in constraints if one.name != SECONDS and not is_of_curve(one.name)]
    if logged and definition.part_names:
        raise UserError(
            f"{KEY}: {logged[0]} has one value for each environment; with several of them constrain {SECONDS}, or a "
            "score such as final"
        )
    _check_logged(definition, logged)


def _check_logged(definition: StudyDefinition, logged: Sequence[Constraint]) -> None:
    """Refuses names that no run will log. Where nobody knows them before, a trial that has ended tells."""
    named = [one for one in logged if "/" in one.name]
    if not named or definition.function is not None or definition.entry != TRAINING_ENTRY:
        return
    names = logged_names(definition.config, definition.space.paths)
    for one in named:
        if names is not None and without_number(one.name) not in names:
            raise UserError(
                f"{KEY}: {str(one)!r} names {one.name}, which no run of {function_name(definition.config)} logs"
                f"{one_of(_like(one.name, names)) or some_of(sorted(names))}"
            )


def _like(name: str, known: Collection[str]) -> list[str]:
    """The nearest names, by what stands behind the slash."""
    near = nearest(name.rpartition("/")[2], (other.rpartition("/")[2] for other in known))
    return [other for last in near for other in sorted(known) if other.rpartition("/")[2] == last]


def _described(definition: StudyDefinition) -> JsonDict:
    return {CONSTRAINTS.key: list(definition.settings.constraints)} if definition.settings.constraints else {}


def _changed(*definitions: JsonDict) -> list[str]:
    before, now = (one.get(CONSTRAINTS.key, []) for one in definitions)
    return [f"constraints were {before} and are {now}"] if before != now else []


def _seen(study: optuna.Study, *where: object) -> dict[str, object]:
    del where
    kept = tuple(study.user_attrs.get(DEFINITION, {}).get(CONSTRAINTS.key, ()))
    parse_constraints(kept)  # a storage may come from anybody
    return {CONSTRAINTS.key: kept} if kept else {}


def _before_end(definition: StudyDefinition, study: optuna.Study, trial: FrozenTrial) -> None:
    """Sets how far the trial is from each limit, unless a controller that died has set it already.

    Of a run that failed or was pruned, what it has not shown counts as at the limit: its score keeps samplers away.
    """
    handle, known = handle_of(study, trial), trial.constraints
    ending: JsonDict = trial.user_attrs.get(ENDING_ATTRIBUTE, {})
    complete = trial.user_attrs.get(OUTCOME_ATTRIBUTE) == Outcome.COMPLETE.value
    for one in parse_constraints(definition.settings.constraints):
        value = one.of(ending.get("seconds", 0.0), curve_of(ending), logged_of(ending))
        if value is None and complete:
            raise _never_logged(definition, one, trial.number)
        if str(one) not in known:
            handle.set_constraint(str(one), _told(one, value, complete=complete))


def _told(constraint: Constraint, value: float | None, *, complete: bool) -> float:
    """The excess; of a run that is not complete no less than 0, as it might have got there."""
    if value is None:
        return 0.0
    return constraint.excess(value) if complete else max(0.0, constraint.excess(value) * constraint.is_upper)


def _never_logged(definition: StudyDefinition, constraint: Constraint, number: int) -> StudyError:
    names = read_logged(definition.study_folder / SCREEN / str(number))
    return StudyError(
        f"{KEY}: trial {number} has come to its end and has never logged {constraint.name}"
        f"{did_you_mean(constraint.name, names) or '.'}\nBegin another study with another study.name"
    )


def _eligible(
    definition: StudyDefinition, candidates: tuple[RunRecord, ...], runs: Sequence[RunRecord]
) -> tuple[RunRecord, ...]:
    """Those that are feasible by their runs; one none of whose runs is complete is left to who chooses."""
    settings = definition.settings
    own = Feasibility(parse_constraints(settings.constraints), settings.over_seeds)
    by_label: dict[str, list[RunRecord]] = {one.label: [] for one in candidates}
    for run in runs:
        if run.complete and run.label in by_label:
            by_label[run.label].append(run)
    shown = tuple(one for one in candidates if by_label[one.label])
    feasible = {one.label for one in shown if not own.violated(by_label[one.label])}
    if shown and not feasible:
        unmoved = own.unmoved(shown, runs)
        raise StudyError(
            f"{own.none_feasible(shown, runs)}.\nLoosen {KEY} in another study (study.name=...), or "
            + (
                f"search what changes {join_words(unmoved)}, which is the same in all of them"
                if unmoved
                else f"have more configurations tried: study.num_trials={2 * settings.num_trials}"
            )
        )
    return tuple(one for one in candidates if one.label in feasible or one not in shown)


class _FeasibleOnly:
    """A study as a pruner sees it: without complete trials that are infeasible.

    A configuration that may be chosen would else be ended for being behind some that may not.
    """

    def __init__(self, study: optuna.Study) -> None:
        self._study = study

    def __getattr__(self, name: str) -> Any:
        return getattr(self._study, name)

    def get_trials(self, *args: Any, **kwargs: Any) -> list[FrozenTrial]:
        """As `Study.get_trials`."""
        found = self._study.get_trials(*args, **kwargs)
        return [trial for trial in found if all(excess <= 0.0 for excess in trial.constraints.values())]


class FeasiblePruner(BasePruner):
    """A pruner that compares with feasible trials only.

    Args:
        inner: Optuna's.
    """

    def __init__(self, inner: BasePruner) -> None:
        self._inner = inner

    def __str__(self) -> str:
        return str(self._inner)

    def prune(self, study: optuna.Study, trial: FrozenTrial) -> bool:
        """As the pruner does."""
        return self._inner.prune(_FeasibleOnly(study), trial)  # type: ignore[arg-type]


def _pruner(definition: StudyDefinition, pruner: BasePruner) -> BasePruner:
    constrained = definition.settings.constraints and not isinstance(pruner, NopPruner)
    return FeasiblePruner(pruner) if constrained else pruner


PART = InStudy(
    check=_check,
    described=_described,
    changed=_changed,
    seen=_seen,
    before_end=_before_end,
    eligible=_eligible,
    pruner=_pruner,
)
