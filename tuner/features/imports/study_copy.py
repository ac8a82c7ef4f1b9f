"""A copy of another program's study, which is a study of ours: one stage, in which each configuration ran once.

It is kept as a sweep is. What makes it a study of ours is written last: one that was left in the middle is not taken
for whole, and the next import begins it anew.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import optuna
from optuna.trial import FrozenTrial, TrialState

from tuner.errors import UserError
from tuner.features.imports.facts import IMPORTED, Source
from tuner.features.imports.foreign_parameters import Imported
from tuner.features.imports.foreign_storage import ended_trials
from tuner.results.protocol import StudySettings
from tuner.results.records import SCREEN
from tuner.study.definition import StudyDefinition
from tuner.study.storage.soundness import readable
from tuner.study.storage.store import DEFINITION, FACTS, SETTINGS, StudyStore, describe, settings_to_json
from tuner.study.storage.trial_records import (
    ENDING_ATTRIBUTE,
    OUTCOME_ATTRIBUTE,
    RUN_ATTRIBUTE,
    packed_curve,
)
from tuner.study.sweep.sweep_study import RETURNED, SWEEP_FOLDER
from tuner.trial.messages import JsonDict, Outcome

_IMPORTING: Final = "tuner:importing"
"""Of a copy that is being written: what it is made of."""
_OUTCOMES: Final = {
    TrialState.COMPLETE: Outcome.COMPLETE,
    TrialState.PRUNED: Outcome.PRUNED,
    TrialState.FAIL: Outcome.CRASHED,
}


@dataclass(frozen=True)
class Original:
    """The study of another program.

    Attributes:
        study: Optuna's.
        source: Where it is.
    """

    study: optuna.Study
    source: Source


@dataclass(frozen=True)
class Copied:
    """Result of a copy.

    Attributes:
        trials: All of the copy, by their ends.
        num_new: Those that were not in it before.
        num_left_out: Those that have not ended there.
    """

    trials: Mapping[Outcome, int]
    num_new: int
    num_left_out: int


def copy_study(
    original: Original,
    parameters: Imported,
    store: StudyStore,
    definition: StudyDefinition,
    progress: Callable[[int, int], object] = lambda done, total: None,
) -> Copied:
    """Writes the copy, or what is new of a study that was imported before.

    Args:
        original: The copied study; it has an ended trial at least.
        parameters: Its parameters, as ours.
        store: Where the copy is kept.
        definition: Of the copy.
        progress: Called before each trial with how many are copied and how many there are to copy.

    Raises:
        UserError: There is another study of that name, or it was imported with other keys.
    """
    foreign, source = original.study, original.source
    trials = ended_trials(foreign, source.storage)
    directions: list[Any] = [one.name.lower() for one in foreign.directions]
    before = store.find(definition.name)
    if (
        before is not None
        and before.user_attrs.get(_IMPORTING) == source.as_json()
        and DEFINITION not in before.user_attrs
    ):
        store.delete(definition.name)
        before = None
    if before is not None:
        _check_same(before, parameters, source, definition)
        _check_begun(before, trials, definition.name)
    study = before or store.open(definition.name, SCREEN, directions=directions)
    known = {one.user_attrs[RUN_ATTRIBUTE]["label"] for one in study.get_trials(deepcopy=False)}
    with readable(store.url):
        if before is None:
            study.set_user_attr(_IMPORTING, source.as_json())
        new = [one for one in trials if _label(one) not in known]
        for number, one in enumerate(new):
            progress(number, len(new))
            study.add_trial(_copied(one, parameters, len(directions)))
        if before is None:
            _sign(study, source, definition)
        else:
            study.set_user_attr(SETTINGS, settings_to_json(definition))
    ends: dict[Outcome, int] = {}
    for trial in study.get_trials(deepcopy=False):
        outcome = Outcome(trial.user_attrs[OUTCOME_ATTRIBUTE])
        ends[outcome] = ends.get(outcome, 0) + 1
    return Copied(ends, len(new), len(foreign.get_trials(deepcopy=False)) - len(trials))


def definition_of(name: str, parameters: Imported, agent: str, num_trials: int, folder: Path) -> StudyDefinition:
    """Definition of the copy as a study.

    Args:
        name: Its own.
        parameters: The searched parameters.
        agent: Name of the algorithm; empty: of that of another program.
        num_trials: That there are.
        folder: Of studies.
    """
    return StudyDefinition(
        name=name,
        config={},
        space=parameters.space,
        settings=StudySettings(metric="final", num_trials=max(num_trials, 1)),
        agent=agent,
        folder=folder,
        probe=None,
        facts={RETURNED: "the value of a trial"},
    )


def _check_same(before: optuna.Study, parameters: Imported, source: Source, definition: StudyDefinition) -> None:
    other = f"choose another name for the copy, study.name={definition.name}-2"
    kept = before.user_attrs.get(IMPORTED.key_kept)
    if kept is None:
        raise UserError(f"there is a study {definition.name} already, which is no copy of another: {other}")
    known = IMPORTED.read(kept)
    assert known is not None
    if (known.storage, known.name) != (source.storage, source.name):
        raise UserError(f"study {definition.name} is a copy of {known.name} in {known.storage} already: {other}")
    agent = before.user_attrs[DEFINITION]["agent"]
    if agent != definition.agent or parameters.space.difference(before.user_attrs[DEFINITION]["space"]):
        raise UserError(
            f"study {definition.name} was imported before, with other keys, another agent or narrower ranges: {other}"
        )


def _check_begun(before: optuna.Study, trials: Sequence[FrozenTrial], name: str) -> None:
    """Refuses a study that was deleted and begun again: a copy would mix the two."""
    begun = {one.user_attrs[RUN_ATTRIBUTE]["label"]: one.datetime_start for one in before.get_trials(deepcopy=False)}
    for trial in trials:
        if trial.datetime_start is not None and begun.get(_label(trial), trial.datetime_start) != trial.datetime_start:
            raise UserError(
                f"the study that {name} is a copy of was begun anew: trial {trial.number} is another one there. Choose "
                f"another name for the copy, study.name={name}-2"
            )


def _sign(study: optuna.Study, source: Source, definition: StudyDefinition) -> None:
    """Writes what makes it a study of ours."""
    described = describe(definition)
    study.set_user_attr(IMPORTED.key_kept, source.as_json())
    study.set_user_attr(SWEEP_FOLDER, str(definition.study_folder))
    study.set_user_attr(FACTS, dict(definition.facts))
    study.set_user_attr(SETTINGS, settings_to_json(definition))
    study.set_user_attr(DEFINITION, described)


def _label(trial: FrozenTrial) -> str:
    return f"trial {trial.number}"


def _copied(trial: FrozenTrial, parameters: Imported, num_objectives: int) -> FrozenTrial:
    """A trial as one of ours."""
    drawn = parameters.drawn(trial)
    values = [] if trial.values is None else list(trial.values)
    outcome, reason = _OUTCOMES[trial.state], ""
    if trial.state is TrialState.COMPLETE and not (len(values) == num_objectives and all(map(math.isfinite, values))):
        outcome, reason = Outcome.DIVERGED, f"its value is {', '.join(map(str, values)) or 'missing'}"
    started = trial.datetime_start or trial.datetime_complete or datetime.now()
    ended = trial.datetime_complete or started
    curve = sorted(trial.intermediate_values.items())
    number = str(trial.number)
    run = {"seed": 0, "label": _label(trial), "values": parameters.values(trial), "subdir": number, "overrides": []}
    ending = {
        "reason": reason or _reason(trial),
        "seconds": max((ended - started).total_seconds(), 0.0),
        "curve": packed_curve(curve),
    }
    attributes: JsonDict = {RUN_ATTRIBUTE: run, OUTCOME_ATTRIBUTE: outcome, ENDING_ATTRIBUTE: ending}
    is_scored = outcome in (Outcome.COMPLETE, Outcome.PRUNED) and bool(values) and all(map(math.isfinite, values))
    state = TrialState.FAIL if outcome in (Outcome.DIVERGED, Outcome.CRASHED) else trial.state
    distributions = {one.name: one.distribution for one in parameters.space.parameters if one.name in drawn}
    found = optuna.trial.create_trial(
        state=state,
        values=values if is_scored else None,
        params=drawn,
        distributions=distributions,
        user_attrs=attributes,
        intermediate_values=dict(trial.intermediate_values),
    )
    for name, value in trial.constraints.items():
        found.set_constraint(name, value)
    found.datetime_start, found.datetime_complete = started, ended
    return found


def _reason(trial: FrozenTrial) -> str:
    """Why a trial failed, where it says so."""
    with suppress(KeyError):
        return str(trial.system_attrs["fail_reason"])
    return ""
