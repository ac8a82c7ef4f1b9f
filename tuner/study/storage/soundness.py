"""Whether what a storage holds is what was once written there: tables, records, and what we keep with a study.

A file may be damaged, cut by a full disk, or changed by somebody's hand. That is found when a study is opened, and
said; later code may rely on it.
"""

import hashlib
import json
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NotRequired, TypedDict

import optuna
import sqlalchemy.exc
from optuna.exceptions import OptunaError
from optuna.trial import FrozenTrial, TrialState

from note_rl.support.formats import why_too_new
from note_rl.support.garbage import no_garbage_collection
from tuner.errors import UserError
from tuner.results.features import all_facts
from tuner.results.records import Scalar
from tuner.study.optuna_internals import SCHEMA_VERSION, TABLES
from tuner.study.storage.retries import cause_of, is_connection_lost
from tuner.study.storage.value_checks import check_carried, check_shown
from tuner.support.decoding import decode
from tuner.support.names import is_folder_name
from tuner.support.text_files import is_full, parse_json
from tuner.trial.messages import JsonDict, Outcome

_UNREADABLE = (
    *(OptunaError, sqlalchemy.exc.SQLAlchemyError),
    *(ValueError, LookupError, TypeError, AttributeError, AssertionError, RecursionError),
)
"""Errors that Optuna raises over records that contradict each other, or are none."""


class _Decision(TypedDict):
    point: int
    fraction: float
    enabled: bool
    agreement: float | None
    bound: float | None


class _Rungs(TypedDict):
    decisions: list[_Decision]
    num_trials: int


class _Owner(TypedDict):
    host: str
    pid: int | None
    folder: str


class _Definition(TypedDict):
    format: int
    fingerprint: str
    space: dict[str, JsonDict]
    metric: str
    seed: int
    agent: str
    env: str
    backend: str
    config: JsonDict
    versions: dict[str, str]


class _Study(TypedDict, total=False):
    definition: _Definition
    settings: dict[str, int | None]
    facts: dict[str, Scalar]
    random_score: float | None
    winner: str | None
    baselines: list[str]
    seconds: float
    closed: dict[str, float | None]
    rungs: _Rungs
    controller: _Owner
    sweep_folder: str


class _Run(TypedDict):
    seed: int


class _Described(_Run):
    label: str
    values: JsonDict


class _RunOfStage(_Described):
    config: JsonDict


class _Job(_Described):
    subdir: str
    overrides: list[str]


class _Attempt(TypedDict):
    outcome: Outcome
    reason: str
    seconds: float


class _Ending(TypedDict):
    reason: str
    seconds: float
    curve: str
    times: NotRequired[str]
    logged: NotRequired[dict[str, float]]
    time_limit: NotRequired[float]


class _Part(_Ending):
    outcome: Outcome
    value: float | None
    attempts: NotRequired[list[_Attempt]]


_CURVE: Any = list[tuple[float, float]]
"""Packed into a text; steps and values need not be finite."""


class _PartBegun(TypedDict):
    attempts: list[_Attempt]


class _Trial(TypedDict, total=False):
    ending: _Ending
    attempts: list[_Attempt]
    warm_start: str
    outcome: Outcome
    environments: dict[str, JsonDict]


@contextmanager
def readable(address: str) -> Iterator[None]:
    """Says plainly that the storage cannot be read. Around calls of Optuna's only.

    Args:
        address: Of the storage, as it may be printed.

    Raises:
        UserError: For all that is neither a lost connection nor a full disk, which have their own words.
    """
    try:
        yield
    except _UNREADABLE as error:
        if isinstance(error, UserError) or is_connection_lost(error) or is_full(error):
            raise
        raise _damaged(address, f"{type(error).__name__}: {cause_of(error)}") from error


def _damaged(address: str, how: str) -> UserError:
    how = " ".join(how.split())[:_MOST_WORDS]
    return UserError(
        f"{address} is damaged, or was changed by hand ({how}); it is left as it is.\n"
        "Restore a copy of it, or begin anew with another storage.url=..."
    )


_MOST_WORDS = 200


def check_tables(address: str, connection: sqlite3.Connection) -> None:
    """Compares the tables of a database with those that this version of Optuna makes.

    In one that holds nothing, tables may be missing: it was left while it was being made, and Optuna makes the rest.

    Raises:
        UserError: One of them, or a column, is missing: Optuna would make it anew, and empty.
    """
    try:
        versions = [row[0] for row in connection.execute("SELECT schema_version FROM version_info")]
    except sqlite3.DatabaseError:
        versions = []
    if versions and versions != [SCHEMA_VERSION]:
        return  # another version of Optuna, which says so itself
    is_begun = _holds_nothing(connection)
    for name, table in TABLES.items():
        columns = {row[1] for row in connection.execute(f"PRAGMA table_info({name})")}
        if not columns and is_begun:
            continue
        if not columns:
            raise _damaged(address, f"it has no table {name}")
        lacking = sorted({column.name for column in table.columns} - columns)
        if lacking:
            raise _damaged(address, f"its table {name} has no {', '.join(lacking)}")
    if not versions and not is_begun:
        raise _damaged(address, "it names no version")


def _holds_nothing(connection: sqlite3.Connection) -> bool:
    """Whether no table of Optuna's has a row, but for the version."""
    there = {row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    ours = there & TABLES.keys() - {"version_info", "alembic_version"}
    return not any(connection.execute(f'SELECT 1 FROM "{name}" LIMIT 1').fetchone() for name in ours)


@no_garbage_collection()  # which would look through thousands of trials again and again while they are read
def check_study(study: optuna.Study, address: str) -> None:
    """Reads all of a study of ours, and compares what we keep with it and with its trials with what that must be.

    Raises:
        UserError: Something is of another kind, or missing.
    """
    with readable(address):
        kept, trials = study.user_attrs, study.get_trials(deepcopy=False)
        name, directions = study.study_name, study.directions
    _check_format(kept.get("definition"), f"study {name} in {address}")
    try:
        decode(_Study, kept, nan=False)
        if "definition" in kept:
            _check_space(kept["definition"])
        for fact in all_facts():
            if fact.stage is not None and fact.key_kept in kept:
                fact.read(kept[fact.key_kept])
        run = _Job if "sweep_folder" in kept else _RunOfStage if "/" in name else _Run
        is_screened = "definition" in kept and "sweep_folder" not in kept and "/" not in name
        for trial in trials:
            with _named(f"trial {trial.number}"):
                _check_trial(trial, run, len(directions), is_stage="/" in name)
                if "/" in name:
                    check_shown(trial.user_attrs)
                elif is_screened:
                    check_carried(trial, kept["definition"])
    except ValueError as error:
        raise _damaged(f"study {name} in {address}", str(error)) from error


def _check_format(definition: object, what: str) -> None:
    """Refuses what a later version wrote, before it is taken for damaged; all else is for `decode`."""
    if isinstance(definition, dict) and isinstance(definition.get("versions"), dict):
        why = why_too_new(definition.get("format"), definition["versions"].get("note-rl"))
        if why is not None:
            raise UserError(f"cannot read {what}: {why}")


@contextmanager
def _named(what: str) -> Iterator[None]:
    try:
        yield
    except ValueError as error:
        raise UserError(f"{what}: {error}") from error


def _check_space(definition: JsonDict) -> None:
    described = json.dumps(definition["space"], sort_keys=True).encode()
    if hashlib.sha256(described).hexdigest()[: len(definition["fingerprint"])] != definition["fingerprint"]:
        raise UserError("its search space is not the one it was begun with")


def _check_trial(trial: FrozenTrial, run: type[_Run], num_objectives: int, *, is_stage: bool) -> None:
    kept = trial.user_attrs
    decode(_Trial, kept, nan=False)
    decode(dict[str, float], trial.constraints, "limits")
    if "run" in kept or is_stage:
        decode(run, kept.get("run", {}), "run", nan=False)
    parts = kept.get("environments", {})
    for name, part in parts.items():
        if not is_folder_name(name):
            raise UserError(f"{name!r} is not the name of an environment")
        decode(_Part if "outcome" in part else _PartBegun, part, name, nan=False)
    for ending in (kept.get("ending", {}), *parts.values()):
        for key in {"curve", "times"} & ending.keys():
            decode(_CURVE, parse_json(ending[key]), key)
    if trial.state is TrialState.COMPLETE and len(trial.values or ()) != num_objectives:
        raise UserError("it has no score")
    drawn = {**trial.system_attrs.get("fixed_params", {}), **trial.params}
    if is_stage and not {"candidate", "seed"} <= drawn.keys():
        raise UserError("candidate or seed is missing")
