"""Opening the storage of studies: checked before Optuna touches it, so that a damaged file is left as it is.

`sqlite:///studies.db`, `journal:///studies.journal`, `memory`, or any database URL that SQLAlchemy knows.
"""

import json
import math
import shutil
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Final

import optuna
import sqlalchemy.exc
from optuna.exceptions import StorageInternalError
from optuna.storages import BaseStorage, InMemoryStorage, JournalStorage, RDBStorage
from optuna.storages.journal import JournalFileBackend, JournalFileSymlinkLock
from sqlalchemy import Engine, create_engine, inspect
from sqlalchemy.engine import make_url

from tuner.errors import UserError
from tuner.study.optuna_internals import JOURNAL_OPERATIONS
from tuner.study.storage.connections import DatabaseConnections
from tuner.study.storage.retries import RetryingStorage, cause_of
from tuner.study.storage.soundness import check_tables, readable
from tuner.support.names import did_you_mean
from tuner.support.passwords import shown
from tuner.support.text_files import is_full

BUSY_TIMEOUT_S = 60
JOURNAL_LOCK_GRACE_S = 5
"""An append takes milliseconds; a lock file older than this was left by a process that was killed."""

IN_MEMORY = ("memory", "sqlite://", "sqlite:///:memory:")
_SQLITE_HEADER = b"SQLite format 3\0"
_PAUSE_S = 0.2
_BEING_MADE_S = 5.0
_ROOM_TO_READ = 64 * 1024
_DIALECTS = ("sqlite", "postgresql", "mysql", "mariadb")
_PACKAGES = {"psycopg": "'psycopg[binary]'", "psycopg2": "psycopg2-binary", "MySQLdb": "mysqlclient"}
"""The package of a driver module, where it has another name."""


def open_storage(url: str, log: Callable[[str], None] = lambda message: None) -> BaseStorage:
    """Opens a storage, making it where there is none.

    Args:
        url: Where it is.
        log: Gets a line when something had to be repaired.

    Raises:
        UserError: A damaged or foreign file (which is left untouched), a folder that cannot be used, an unknown kind of
            URL, a missing driver, a database that does not answer or was written by a newer Optuna.
    """
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    if url in IN_MEMORY:
        return InMemoryStorage()
    check_url(url)
    return _open_journal(file_of(url), log) if url.startswith("journal:") else _open_database(url)


def check_url(url: str) -> None:
    """Refuses an address that nothing can be behind. Opens nothing.

    Raises:
        UserError: No URL, an unknown kind of database, a port that is no number, a folder in place of a file.
    """
    if url in IN_MEMORY:
        return
    if not url.startswith("journal:"):
        _dialect_of(url)
    if url.startswith(("journal:", "sqlite:")):
        path = file_of(url)
        kind, _, rest = url.partition("://")
        if rest and not rest.startswith("/"):  # SQLAlchemy takes it for the name of a host
            raise UserError(f"storage.url={url} has two slashes, and a file three: write {kind}:///{rest}")
        if not path.name or not str(path).isprintable() or path.is_dir():
            raise UserError(
                f"storage.url={shown(url)} names no file; write sqlite:///studies.db or journal:///studies.journal"
            )


def _dialect_of(url: str) -> str:
    try:
        parsed = make_url(url)
        parsed.get_dialect()
    except sqlalchemy.exc.NoSuchModuleError:
        dialect = url.partition(":")[0]
        raise UserError(
            f"storage.url={shown(url)}: no kind of database is called {dialect}{did_you_mean(dialect, _DIALECTS)}"
        ) from None
    except (sqlalchemy.exc.ArgumentError, ValueError):  # ValueError: a port that is no number
        file = Path(url)
        kind = _BY_SUFFIX.get(file.suffix.lower())
        if kind is not None and "://" not in url:
            raise UserError(f"storage.url={shown(url)} is a file, and no URL: write {kind}:///{url}") from None
        raise UserError(
            f"storage.url={shown(url)} is not a URL; write sqlite:///studies.db, journal:///studies.journal, memory or "
            "postgresql://..."
        ) from None
    if "@" in (parsed.host or ""):  # the end of the password was taken for the host, and would be named as such
        raise UserError(f"storage.url={shown(url)}: write %40 in the place of each at sign of the password")
    return parsed.get_backend_name()


_BY_SUFFIX: Final = {
    **dict.fromkeys((".db", ".sqlite", ".sqlite3"), "sqlite"),
    **dict.fromkeys((".journal", ".log"), "journal"),
}
"""Kinds of storages by how their files are usually called."""


def file_of(url: str) -> Path:
    """The file behind a `sqlite:///` or `journal:///` URL; three slashes: relative, four: absolute."""
    if url.startswith("sqlite:"):
        with suppress(sqlalchemy.exc.ArgumentError, ValueError):  # no URL: another message says so
            return Path(make_url(url).database or "")  # SQLAlchemy reads %20 as a space
    return Path(url.partition(":")[2].removeprefix("///").partition("?")[0])


def has_studies(url: str) -> bool:
    """Whether there may be studies at that URL: to open a storage makes one. Changes nothing.

    What cannot be looked into counts as one that has; opening it says what is wrong.
    """
    if url in IN_MEMORY:
        return False
    if not url.startswith(("sqlite:", "journal:")):
        return _server_has_studies(url)
    path = file_of(url)
    if not path.is_file() or path.stat().st_size == 0:
        return False
    if url.startswith("journal:"):
        return True
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as connection:
            return connection.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone() is not None
    except sqlite3.Error:
        return True


def _server_has_studies(url: str) -> bool:
    try:
        with _asking(url) as engine:
            return inspect(engine).has_table("studies")
    except (sqlalchemy.exc.SQLAlchemyError, ImportError):
        return True


@contextmanager
def _asking(url: str) -> Iterator[Engine]:
    """A server for a question or two; one that hangs is given up as in a study."""
    connections = DatabaseConnections()
    engine = create_engine(url, **connections.engine_options(make_url(url)))
    connections.watch_connecting(engine)
    try:
        with connections.call():
            yield engine
    finally:
        engine.dispose()
        connections.close()


def answers(url: str) -> None:
    """Asks a database server whether it is there; makes no tables.

    Raises:
        UserError: It does not answer, or cannot be asked.
    """
    try:
        with _asking(url) as engine, closing(engine.connect()):
            pass
    except (sqlalchemy.exc.SQLAlchemyError, ImportError) as error:
        raise UserError(f"storage.url={shown(url)} does not answer: {cause_of(error)}") from error


def _open_database(url: str) -> BaseStorage:
    dialect = _dialect_of(url)
    if dialect == "sqlite":
        path = file_of(url)
        _require_usable(path)
        _check_sqlite(path)
    try:
        return _connect(url)
    except ImportError as error:
        module = getattr(error.__cause__, "name", None) or dialect
        raise UserError(
            f"storage.url={shown(url)} needs the driver {module}, which is not installed: "
            f"pip install {_PACKAGES.get(module, module)}"
        ) from error
    except RuntimeError as error:  # Optuna's word for tables of another version
        raise UserError(f"storage.url={shown(url)} was written by another version of Optuna: {error}") from error
    except (sqlalchemy.exc.SQLAlchemyError, StorageInternalError) as error:
        if is_full(error):
            raise UserError(f"storage.url={shown(url)} cannot be opened: the disk is full; make room") from error
        raise UserError(
            f"storage.url={shown(url)} cannot be opened: {cause_of(error)}; "
            "check the address, that it runs, and your rights"
        ) from error


_COLLISIONS = ("already exists", "database is locked")  # SQLite waits for no lock to begin to write ahead


def _connect(url: str) -> RDBStorage:
    """Connects, and makes the tables of a new database; of two processes that do so at once, one has to try again."""
    deadline = math.inf  # of a machine that is busy, the first try alone may take longer
    while True:
        try:
            return _opened(url)
        except sqlalchemy.exc.DBAPIError as error:
            collided = isinstance(error, sqlalchemy.exc.IntegrityError) or any(one in str(error) for one in _COLLISIONS)
            if not collided or time.monotonic() > deadline:
                raise
            deadline = min(deadline, time.monotonic() + _BEING_MADE_S)
            time.sleep(_PAUSE_S)


def _opened(url: str) -> RDBStorage:
    return SqliteStorage(url) if url.startswith("sqlite") else RetryingStorage(url, DatabaseConnections())


class SqliteStorage(RDBStorage):
    """An RDBStorage in a file. One that could not be opened keeps no connection.

    As long as one connection of a process is open, SQLite closes the file of none of them.
    """

    def __init__(self, url: str) -> None:
        options = {"connect_args": {"timeout": BUSY_TIMEOUT_S}, "pool_events": [(_use_write_ahead_log, "connect")]}
        try:
            super().__init__(url, engine_kwargs=options)
        except BaseException:
            if hasattr(self, "scoped_session"):
                self.remove_session()
                self.engine.dispose()
            raise


def _use_write_ahead_log(connection: sqlite3.Connection, record: object) -> None:
    """Lets readers (the dashboard, a report) never block the writer.

    Synchronous NORMAL loses nothing when a process is killed, and what a power cut may take back is still in the
    folders of the trials.
    """
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=NORMAL")


def _require_usable(path: Path) -> None:
    """Makes the folder of a storage file and sees to it that the file can be written."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("ab"):
            pass
    except OSError as error:
        raise UserError(
            f"the storage file {path} cannot be written: {error.strerror}; "
            "choose another with storage.url=... or run elsewhere"
        ) from error


def _check_sqlite(path: Path) -> None:
    """Refuses a file that is no database, damaged, or somebody else's; reads only."""
    if path.stat().st_size == 0:
        return
    deadline = time.monotonic() + _BEING_MADE_S
    while True:
        try:
            verdict, tables = _inspect(path)
            break
        except UserError:
            if time.monotonic() > deadline or time.time() - path.stat().st_mtime > _BEING_MADE_S:
                raise
            time.sleep(_PAUSE_S)  # somebody may be making its tables just now
    if verdict != "ok":
        raise UserError(
            f"the storage file {path} is not a sound SQLite database ({verdict}); it is left untouched.\n"
            "Restore a copy of it, or start a new one with storage.url=sqlite:///another.db"
        )
    if tables and not tables & _OWN_TABLES:
        raise UserError(
            f"the SQLite database {path} holds something else than studies (table {min(tables)}); "
            "it is left untouched.\nChoose another file with storage.url=sqlite:///studies.db"
        )


_OWN_TABLES = frozenset({"studies", "version_info"})


def _inspect(path: Path) -> tuple[str, set[str]]:
    """SQLite's verdict on a file ("ok" or the error), and the tables in it."""
    with path.open("rb") as file:
        if file.read(len(_SQLITE_HEADER)) != _SQLITE_HEADER:  # SQLite itself would take a short file for an empty one
            return "file is not a database", set()
    address = f"{path.absolute().as_uri()}?mode=ro"
    try:
        with closing(sqlite3.connect(address, uri=True, timeout=BUSY_TIMEOUT_S)) as connection:
            verdict = str(connection.execute("PRAGMA quick_check(1)").fetchone()[0])
            tables = {row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
            if verdict == "ok" and tables & _OWN_TABLES:
                check_tables(f"the storage file {path}", connection)
    except (sqlite3.DatabaseError, UnicodeDecodeError) as error:  # its words may quote what was damaged
        if isinstance(error, sqlite3.OperationalError):  # says nothing of the file
            raise UserError(f"the storage file {path} cannot be read: {error}{_room_left(path)}") from error
        return str(error), set()
    return " ".join(verdict.split()), tables


def _room_left(path: Path) -> str:
    """A hint if there is none: to read a database that was written to, SQLite has to make a small file beside it."""
    full = shutil.disk_usage(path.parent).free < _ROOM_TO_READ
    return "; the disk is full: make room" if full else ""


def _open_journal(path: Path, log: Callable[[str], None]) -> BaseStorage:
    _require_usable(path)
    lock = JournalFileSymlinkLock(str(path), grace_period=JOURNAL_LOCK_GRACE_S)
    lock.acquire()
    try:
        repair_journal(path, log)
    finally:
        lock.release()
    with readable(f"the journal {path}"):  # which is replayed at once
        return JournalStorage(JournalFileBackend(str(path), lock_obj=lock))


def repair_journal(path: Path, log: Callable[[str], None] = lambda message: None) -> None:
    """Cuts a last line that was only half written, after a copy of the file has been put beside it.

    The record was never acknowledged to the one who wrote it, so nothing is lost. Left there, the next record would be
    glued to it and the study be unreadable for good.

    Raises:
        UserError: A line that is not the last is damaged: that is no torn write, and no part of the file is changed; or
            a newer Optuna has written what this one cannot read.
    """
    sound = 0
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            operation = _operation_of(line) if line.endswith(b"\n") else None
            if operation is None:
                if file.read(1):
                    raise UserError(
                        f"the journal {path} is damaged in line {number}; it is left untouched.\n"
                        "Restore a copy of it, or start a new one with storage.url=journal:///another.journal"
                    )
                break
            if operation not in JOURNAL_OPERATIONS:
                raise UserError(
                    f"the journal {path} was written by a newer Optuna: line {number} holds operation {operation}, "
                    f"unknown to Optuna {optuna.__version__}.\npip install -U optuna, or start a new journal with "
                    "storage.url=journal:///another.journal"
                )
            sound += len(line)
    if sound == path.stat().st_size:
        return
    backup = path.with_name(f"{path.name}.torn-{time.strftime('%Y%m%d-%H%M%S')}")
    shutil.copy2(path, backup)
    with path.open("r+b") as file:
        file.truncate(sound)
    log(f"the last record of {path} was half written and has been cut; the file as it was is {backup}")


def _operation_of(line: bytes) -> int | None:
    """The operation of a record of a journal; None if it is no record."""
    try:
        content = json.loads(line)
    except (ValueError, RecursionError):
        return None
    operation = content.get("op_code") if isinstance(content, dict) else None
    return operation if isinstance(operation, int) else None
