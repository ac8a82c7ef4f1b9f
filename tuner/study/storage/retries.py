"""A database that is not there for a while: everything is tried again until it is back, or patience ends.

What a study has finished is in the database or in the folders of its runs, so waiting costs nothing, and giving up
costs nothing but the time until the same command is given again.
"""

import logging
import time
from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec, TypeVar

import sqlalchemy.exc
from optuna.exceptions import OptunaError, StorageInternalError, UpdateFinishedTrialError
from optuna.storages import RDBStorage
from optuna.trial import TrialState
from sqlalchemy.engine import make_url

from tuner.errors import UserError
from tuner.study.optuna_internals import DATABASE_CALLS
from tuner.study.storage.connections import DatabaseConnections, GivenUpError
from tuner.support.passwords import hidden
from tuner.support.text_files import is_full

PATIENCE_S = 300.0
"""How long a study waits for its database. Runs under way wait with it, at their next report."""

_FIRST_PAUSE_S = 0.5
_LONGEST_PAUSE_S = 30.0
_GIVEN_UP = "stopped while the database did not answer; once it does, the same command goes on"
_log = logging.getLogger(__name__)

_Arguments = ParamSpec("_Arguments")
_Result = TypeVar("_Result")


class StorageLostError(UserError):
    """The storage has not answered for too long, or takes nothing more."""


def _is_of_interest(record: logging.LogRecord) -> bool:
    """Not what Optuna says of a lost connection, with the whole statement: it is answered here."""
    text = record.getMessage()
    return not ("Falling back to a slower" in text and "sqlite3" not in text)


logging.getLogger(RDBStorage.__module__).addFilter(_is_of_interest)


class RetryingStorage(RDBStorage):
    """An RDBStorage whose calls wait for a database server that does not answer, until the user has had enough.

    Attributes:
        connections: To the server.
    """

    def __init__(self, url: str, connections: DatabaseConnections) -> None:
        self.connections = connections
        with connections.call():
            super().__init__(url, engine_kwargs=connections.engine_options(make_url(url)))
        connections.watch_connecting(self.engine)

    def set_trial_state_values(self, trial_id: int, state: TrialState, values: Any = None) -> bool:
        """Closes a trial. If the database took it and was gone before it could say so, that is noticed."""
        attempts = [0]

        def close() -> bool:
            attempts[0] += 1
            try:
                return super(RetryingStorage, self).set_trial_state_values(trial_id, state, values)
            except UpdateFinishedTrialError:
                if attempts[0] > 1 and self.get_trial(trial_id).state is state:
                    return True
                raise

        return with_retries(close, self.connections)()


def with_retries(
    call: Callable[_Arguments, _Result], connections: DatabaseConnections | None = None
) -> Callable[_Arguments, _Result]:
    """The same function, tried again for as long as the connection to the database is the trouble.

    Args:
        call: A method of `RetryingStorage`, or any other function.
        connections: To the database; None: that of the storage whose method this is.
    """

    @wraps(call)
    def waiting(*args: _Arguments.args, **kwargs: _Arguments.kwargs) -> _Result:
        began, pause = time.monotonic(), _FIRST_PAUSE_S
        way = connections
        if way is None:
            way = args[0].connections if args and isinstance(args[0], RetryingStorage) else DatabaseConnections()
        while True:
            try:
                with way.call():
                    return call(*args, **kwargs)
            except GivenUpError:
                raise StorageLostError(_GIVEN_UP) from None
            except (OptunaError, sqlalchemy.exc.SQLAlchemyError) as error:
                if not is_connection_lost(error):
                    raise
                cause = cause_of(error)
                if time.monotonic() - began + pause > PATIENCE_S:
                    raise StorageLostError(
                        f"the database has not answered for {PATIENCE_S:g} s: {cause}.\n"
                        "Nothing that was finished is lost; once it answers, the same command goes on."
                    ) from error
                _log.warning("the database does not answer (%s); trying again in %g s", cause, pause)
            with way.pause():
                time.sleep(pause)
            pause = min(2.0 * pause, _LONGEST_PAUSE_S)

    return waiting


for _name in (
    *(*DATABASE_CALLS, "create_new_study"),
    *("get_all_studies", "get_study_directions", "get_study_id_from_name", "get_study_name_from_id"),
    *("get_study_system_attrs", "get_study_user_attrs", "get_trial", "get_trial_id_from_study_id_trial_number"),
    *("set_study_system_attr", "set_study_user_attr", "set_trial_intermediate_value", "set_trial_system_attr"),
    "set_trial_user_attr",
):
    setattr(RetryingStorage, _name, with_retries(getattr(RDBStorage, _name)))


STORAGE_ERRORS = (OptunaError, sqlalchemy.exc.SQLAlchemyError, OSError)


def explained(error: BaseException) -> BaseException:
    """The error that is to be raised for one of `STORAGE_ERRORS`: a clear word if the storage takes nothing more."""
    trouble = _database_error(error)
    if not (is_full(error) or isinstance(trouble, sqlalchemy.exc.OperationalError)):
        return error
    return StorageLostError(
        f"the study cannot be written down any more: {cause_of(error)}.\n"
        "Nothing that was finished is lost; once that is mended, the same command goes on."
    )


def is_connection_lost(error: BaseException) -> bool:
    """Whether the server, or the way to it, is the trouble and not what was asked of it."""
    database = _database_error(error)
    if not isinstance(database, sqlalchemy.exc.OperationalError | sqlalchemy.exc.InterfaceError):
        return False
    return type(database.orig).__module__.partition(".")[0] != "sqlite3"


def cause_of(error: BaseException) -> str:
    """The database's error, in one line."""
    database = _database_error(error)
    return hidden(str(getattr(database, "orig", None) or database or error).strip().partition("\n")[0])


def _database_error(error: BaseException | None) -> sqlalchemy.exc.SQLAlchemyError | None:
    """SQLAlchemy's exception behind Optuna's."""
    if isinstance(error, StorageInternalError):
        return _database_error(error.__cause__)
    return error if isinstance(error, sqlalchemy.exc.SQLAlchemyError) else None
