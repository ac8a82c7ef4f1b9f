"""Which study a sweep is: the one that was named, an interrupted one of the same jobs, or a new one.

The same are jobs of the same configuration and code, which read the same files.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path

import optuna

from tuner.errors import UserError
from tuner.study.definition import StudyDefinition
from tuner.study.storage.store import StudyStore, check_continues
from tuner.study.sweep.kept_inputs import check_inputs
from tuner.study.sweep.sweep_study import folder_of_sweep


@dataclass(frozen=True)
class SweepPlace:
    """Where a sweep is asked to put its jobs.

    Attributes:
        folder: As it was made out now.
        by_clock: It has another name each time, as it is made of the time: the same command again means no
            other place by it.
        digest_now: Of a file that jobs have read, by its name; None: there is none.
    """

    folder: Path
    by_clock: bool
    digest_now: Callable[[str], str | None] = field(default=lambda name: None)

    def differs(self, study: optuna.Study) -> bool:
        """Whether the jobs of a study are to be in another folder than they are."""
        return not self.by_clock and folder_of_sweep(study, self.folder) != self.folder


def named_study(store: StudyStore, definition: StudyDefinition, place: SweepPlace) -> StudyDefinition:
    """The sweep as the study of its name, which somebody gave it.

    Raises:
        UserError: Its jobs are in another folder than the one asked for, or were others.
    """
    study = store.find(definition.name)
    if study is None or not study.user_attrs:
        return definition
    if place.differs(study):
        raise UserError(
            f"the jobs of study {definition.name} are in {folder_of_sweep(study, place.folder)}: leave "
            f"study.folder={place.folder} out, or begin another study with study.name={definition.name}-2"
        )
    _check_same(study, definition, store.url, place)
    return definition


def _check_same(study: optuna.Study, definition: StudyDefinition, url: str, place: SweepPlace) -> None:
    check_continues(study, definition, url)
    check_inputs(study, place.digest_now)


def unnamed_study(
    store: StudyStore, definition: StudyDefinition, place: SweepPlace, note: Callable[[str], None]
) -> StudyDefinition:
    """The sweep as the latest study under its name, or that name with a number, that is not done; else as a new one.

    Args:
        store: Where studies are kept.
        definition: Of the sweep, its name made of what was typed.
        place: Where its jobs are to be.
        note: Gets the reason why an interrupted one is left as it is.
    """
    known = dict(_family(store, definition.name))
    names = (definition.name if number == 1 else f"{definition.name}-{number}" for number in count(1))
    new = replace(definition, name=next(name for name in names if name not in known))
    left: UserError | None = None
    for name, study in reversed(known.items()):
        if _is_open(study, definition.settings.num_trials) and not place.differs(study):
            wanted = replace(definition, name=name)
            try:
                _check_same(study, wanted, store.url, place)
            except UserError as difference:
                left = left or difference
            else:
                return wanted
    if left is not None:
        first_line, _, _ = str(left).partition("\n")
        note(f"{first_line} So this is a new one: {new.name}")
    return new


def _family(store: StudyStore, name: str) -> Iterator[tuple[str, optuna.Study]]:
    """The studies of one search, in the order in which they were begun."""
    for number in count(1):
        numbered = name if number == 1 else f"{name}-{number}"
        study = store.find(numbered)
        if study is None:
            return
        yield numbered, study


def _is_open(study: optuna.Study, total: int) -> bool:
    trials = study.get_trials(deepcopy=False)
    return len(trials) < total or not all(trial.state.is_finished() for trial in trials)
