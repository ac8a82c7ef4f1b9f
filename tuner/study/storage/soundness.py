"""Whether what a storage holds is what was once written there: tables, records, and what we keep with a study.

A file may be damaged, cut by a full disk, or changed by somebody's hand. That is found when a study is opened, and
said; whoever works on with the study may rely on it.
"""

import hashlib
import json
import math
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import optuna
import sqlalchemy.exc
from optuna.exceptions import OptunaError
from optuna.trial import FrozenTrial, TrialState

from note_rl.support.formats import why_too_new
from tuner.config.kinds import conform, conform_all
from tuner.errors import UserError
from tuner.results.features import all_facts
from tuner.study.optuna_internals import SCHEMA_VERSION, TABLES
from tuner.study.space.coordinates import label_of
from tuner.study.space.parameter_text import value_at
from tuner.study.storage.retries import cause_of, is_connection_lost
from tuner.support.names import is_folder_name
from tuner.support.text_files import is_full, parse_json
from tuner.trial.messages import JsonDict, Outcome

_UNREADABLE = (
    *(OptunaError, sqlalchemy.exc.SQLAlchemyError),
    *(ValueError, LookupError, TypeError, AttributeError, AssertionError, RecursionError),
)
"""What Optuna raises over records that contradict each other, or are none."""

_STUDY = {
    "definition": "dict[str, Any]",
    "settings": "dict[str, int | None]",
    "facts": "dict[str, str | int | float | bool | None]",
    "random_score": "float | None",
    "winner": "str | None",
    "baselines": "list[str]",
    "seconds": "float",
    "closed": "dict[str, int | float | None]",
    "rungs": "dict[str, Any]",
    "controller": "dict[str, str | int | float | None]",
    "sweep_folder": "str",
}
_DEFINITION = {
    "format": "int",
    "fingerprint": "str",
    "space": "dict[str, dict[str, Any]]",
    "metric": "str",
    "seed": "int",
    "agent": "str",
    "env": "str",
    "backend": "str",
    "config": "dict[str, Any]",
    "versions": "dict[str, str]",
}
_RUNGS = {"decisions": "list[dict[str, Any]]", "num_trials": "int"}
_DECISION = {
    **{"point": "int", "fraction": "float", "enabled": "bool"},
    **dict.fromkeys(("agreement", "bound"), "float | None"),
}
_OWNER = {"host": "str", "pid": "int | None", "folder": "str"}
_AN_OUTCOME = f"Literal[{', '.join(repr(str(outcome)) for outcome in Outcome)}]"
_TRIAL = {
    "run": "dict[str, Any]",
    "ending": "dict[str, Any]",
    "attempts": "list[dict[str, Any]]",
    "warm_start": "str",
    "outcome": _AN_OUTCOME,
    "environments": "dict[str, dict[str, Any]]",
}
_RUN = {"seed": "int"}
_DESCRIBED = {"label": "str", "values": "dict[str, Any]"}
_RUN_OF_STAGE = {**_RUN, **_DESCRIBED, "config": "dict[str, Any]"}
_JOB = {**_RUN, **_DESCRIBED, "subdir": "str", "overrides": "list[str]"}
_ATTEMPT = {"outcome": _AN_OUTCOME, "reason": "str", "seconds": "float"}
_ENDING = {"reason": "str", "seconds": "float", "curve": "str"}
_TIMED = {"times": "str", "time_limit": "float"}
_PART = {**_ENDING, "outcome": _AN_OUTCOME, "value": "float | None"}
_PART_BEGUN = {"attempts": "list[dict[str, Any]]"}


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
        conform_all(kept, _STUDY, required=False)
        if "definition" in kept:
            _check_definition(kept["definition"])
        conform_all(kept.get("controller", {}), _OWNER, required="controller" in kept)
        conform_all(kept.get("rungs", {}), _RUNGS, required="rungs" in kept)
        for decision in kept.get("rungs", {}).get("decisions", ()):
            conform_all(decision, _DECISION)
        for fact in all_facts():
            if fact.stage is not None and fact.key_kept in kept:
                conform(fact.key_kept, kept[fact.key_kept], fact.annotation)
                fact.check(kept[fact.key_kept])
        is_screened = "definition" in kept and "sweep_folder" not in kept and "/" not in name
        run = _JOB if "sweep_folder" in kept else _RUN_OF_STAGE if "/" in name else _RUN
        for trial in trials:
            with _named(f"trial {trial.number}"):
                _check_trial(trial, run, len(directions), is_stage="/" in name)
                if "/" in name:
                    _check_shown(trial.user_attrs)
                elif is_screened:
                    _check_carried(trial, kept["definition"]["space"])
    except UserError as error:
        raise _damaged(f"study {name} in {address}", str(error)) from error


def _check_format(definition: object, what: str) -> None:
    """Refuses what a later version wrote, before it is taken for damaged; all else is for `_check_definition`."""
    if isinstance(definition, dict) and isinstance(definition.get("versions"), dict):
        why = why_too_new(definition.get("format"), definition["versions"].get("note-rl"))
        if why is not None:
            raise UserError(f"cannot read {what}: {why}")


@contextmanager
def _named(what: str) -> Iterator[None]:
    try:
        yield
    except UserError as error:
        raise UserError(f"{what}: {error}") from error


def _check_definition(definition: JsonDict) -> None:
    conform_all(definition, _DEFINITION)
    described = json.dumps(definition["space"], sort_keys=True).encode()
    if hashlib.sha256(described).hexdigest()[: len(definition["fingerprint"])] != definition["fingerprint"]:
        raise UserError("its search space is not the one it was begun with")


def _check_trial(trial: FrozenTrial, run: Mapping[str, str], num_objectives: int, *, is_stage: bool) -> None:
    kept = trial.user_attrs
    conform_all(kept, _TRIAL, required=False)
    if "run" in kept or is_stage:
        conform_all(kept.get("run", {}), run)
    parts = kept.get("environments", {})
    for attempt in (*kept.get("attempts", ()), *(one for part in parts.values() for one in part.get("attempts", ()))):
        conform_all(attempt, _ATTEMPT)
    for name, part in parts.items():
        if not is_folder_name(name):
            raise UserError(f"{name!r} is not the name of an environment")
        conform_all(part, _PART if "outcome" in part else _PART_BEGUN)
    for ending in (kept.get("ending"), *(part for part in parts.values() if "outcome" in part)):
        if ending is not None:
            conform_all(ending, _ENDING)
            conform_all(ending, _TIMED, required=False)
            if not all(_is_curve(ending[key]) for key in ("curve", "times") if key in ending):
                raise UserError("its curve is not made of points")
    if trial.state is TrialState.COMPLETE and len(trial.values or ()) != num_objectives:
        raise UserError("it has no score")
    drawn = {**trial.system_attrs.get("fixed_params", {}), **trial.params}
    if is_stage and not {"candidate", "seed"} <= drawn.keys():
        raise UserError("candidate or seed is missing")


def _check_carried(trial: FrozenTrial, space: Mapping[str, JsonDict]) -> None:
    """Compares the values that stand beside a trial with what was drawn; a share is of what may stand elsewhere."""
    for name, described in space.items():
        path = described["path"]
        if described.get("of") or name not in trial.params or path not in trial.user_attrs:
            continue
        kept, expected = label_of(trial.user_attrs[path]), value_at(described, trial.params[name])
        numbers = [one for one in (kept, expected) if isinstance(one, int | float) and not isinstance(one, bool)]
        same = (
            math.isclose(*numbers, rel_tol=1e-9)
            if len(numbers) == 2
            else (type(kept), kept) == (type(expected), expected)
        )
        if not same:
            raise UserError(f"{path} is {kept!r}, and {expected!r} was drawn")


def _check_shown(kept: JsonDict) -> None:
    """Compares the values of a run of a later stage with those that stand beside it, for who looks into the storage."""
    for path, value in kept["run"]["values"].items():
        if kept.get(path, value) != value:
            raise UserError(f"{path} is {kept[path]!r}, and the run has {value!r}")


def _is_curve(kept: str) -> bool:
    """Whether it is a list of points, packed into a text."""
    try:
        curve = parse_json(kept)
    except ValueError:
        return False
    return isinstance(curve, list) and all(map(_is_point, curve))


def _is_point(point: object) -> bool:
    """Whether it is a step and a value, which need not be finite."""
    return isinstance(point, list) and len(point) == 2 and all(type(number) in (int, float) for number in point)
