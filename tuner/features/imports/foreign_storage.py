"""Reads a storage of Optuna's that another program has written; nothing in it is changed.

A file is read from a copy: to open it in place would change how SQLite keeps it, and an older layout has to be brought
up to date before it can be read.
"""

import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import optuna
from optuna.storages import BaseStorage, JournalStorage, RDBStorage
from optuna.storages.journal import JournalFileBackend
from optuna.trial import FrozenTrial

from tuner.errors import UserError
from tuner.study.storage.open_storage import IN_MEMORY, check_url, file_of, has_studies, open_storage, repair_journal
from tuner.study.storage.retries import RetryingStorage
from tuner.study.storage.soundness import readable
from tuner.study.storage.store import DEFINITION, study_of_stage
from tuner.support.names import did_you_mean, some_of
from tuner.support.passwords import shown

_SQLITE_HEADER: Final = b"SQLite format 3\0"
_BUSY_S: Final = 60


def url_of(place: str) -> str:
    """The URL of a storage that was typed as a URL, or as a file as Optuna's own programs take it.

    Raises:
        UserError: Nothing can be behind it.
    """
    if "://" not in place and place not in IN_MEMORY:
        path = Path(place)
        if not path.is_file():
            raise UserError(
                f"storage={place}: there is no such file; a URL is written sqlite:///FILE or journal:///FILE"
            )
        with path.open("rb") as file:
            kind = "sqlite" if file.read(len(_SQLITE_HEADER)) == _SQLITE_HEADER else "journal"
        return f"{kind}:///{place}"
    if place in IN_MEMORY:
        raise UserError(f"storage={place} keeps nothing: name the storage of the study that is to be imported")
    check_url(place)
    return place


def absolute(url: str) -> str:
    """The URL by which a storage is known in any folder: that of a file names the whole path."""
    for kind in ("sqlite:///", "journal:///"):
        place, mark, options = url.removeprefix(kind).partition("?")
        if url.startswith(kind):
            return f"{kind}{Path(place).absolute().resolve()}{mark}{options}"
    return url


@contextmanager
def foreign_storage(url: str) -> Iterator[BaseStorage]:
    """The storage at a URL, to be read.

    Raises:
        UserError: There is none, it is damaged, or of a newer Optuna.
    """
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    if not url.startswith(("sqlite:", "journal:")):
        if not has_studies(url):
            raise UserError(f"storage={shown(url)} holds no study")
        storage = open_storage(url)
        try:
            yield storage
        finally:
            if isinstance(storage, RetryingStorage):
                storage.connections.close()
            _close(storage)
        return
    path = file_of(url)
    if not path.is_file():
        raise UserError(f"storage={url}: there is no file {path}")
    with TemporaryDirectory() as folder:
        copy = Path(folder) / "copy"
        opened = _journal(path, copy) if url.startswith("journal:") else _database(path, copy)
        try:
            yield opened
        finally:
            _close(opened)


def _close(storage: BaseStorage) -> None:
    storage.remove_session()
    if isinstance(storage, RDBStorage):
        storage.engine.dispose()


def _journal(path: Path, copy: Path) -> BaseStorage:
    shutil.copyfile(path, copy)
    try:
        repair_journal(copy)  # the last line may be half written: its program may be at work
    except UserError as error:
        raise UserError(str(error).replace(str(copy), str(path)).partition("\n")[0]) from None
    if copy.stat().st_size == 0:
        raise UserError(f"{path} is no storage of Optuna, or nothing was written to it yet")
    with readable(f"the journal {path}"):
        return JournalStorage(JournalFileBackend(str(copy)))


def _database(path: Path, copy: Path) -> BaseStorage:
    try:
        with (
            closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, timeout=_BUSY_S)) as source,
            closing(sqlite3.connect(copy)) as target,
        ):
            source.backup(target)
            tables = {row[0] for row in target.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    except sqlite3.Error as error:
        raise UserError(f"the storage file {path} cannot be read: {error}") from error
    if "studies" not in tables:
        raise UserError(f"the SQLite database {path} holds no studies of Optuna")
    storage = RDBStorage(f"sqlite:///{copy}", skip_compatibility_check=True, skip_table_creation=True)
    try:
        with readable(f"the storage file {path}"):
            version = storage.get_current_version()
            if version not in storage.get_all_versions():
                raise UserError(
                    f"the storage file {path} was written by a newer Optuna than {optuna.__version__}: "
                    "pip install -U optuna"
                )
            if version != storage.get_head_version():
                storage.upgrade()
    except RuntimeError as error:
        _close(storage)
        raise UserError(f"the storage file {path} cannot be read by Optuna {optuna.__version__}: {error}") from error
    except BaseException:
        _close(storage)
        raise
    return storage


def find_study(storage: BaseStorage, url: str, name: str | None) -> optuna.Study:
    """A study that another program has made.

    Args:
        storage: Where it is.
        url: Of the storage, as typed.
        name: Of the study; None: the only one there is.

    Raises:
        UserError: There is none of that name, several and none is named, or it is one of ours.
    """
    address = shown(url)
    with readable(address):
        summaries = optuna.get_all_study_summaries(storage)
    ours = {one.study_name for one in summaries if DEFINITION in one.user_attrs}
    ours |= {one.study_name for one in summaries if study_of_stage(one.study_name) in ours}
    names = sorted(one.study_name for one in summaries if one.study_name not in ours)
    if name is None:
        if not names:
            raise UserError(f"storage={address} holds no study of another program")
        if len(names) > 1:
            raise UserError(f"storage={address} holds {len(names)} studies{some_of(names)}: choose one with name=...")
        name = names[0]
    if name in ours:
        raise UserError(f"the study {name} was made by tuner, and needs no import: tuner report {name}")
    if name not in names:
        raise UserError(f"storage={address} holds no study {name}{did_you_mean(name, names)}")
    with readable(address):
        return optuna.load_study(study_name=name, storage=storage)


def ended_trials(study: optuna.Study, address: str) -> list[FrozenTrial]:
    """The trials of a study that have come to an end, by number.

    Raises:
        UserError: They cannot be read.
    """
    with readable(address):
        trials = study.get_trials(deepcopy=False)
    return sorted((one for one in trials if one.state.is_finished()), key=lambda one: one.number)
