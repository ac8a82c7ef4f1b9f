"""A storage file that is deleted or replaced while a study runs: noticed, and what it held is saved where that can be.

An open file that is deleted goes on taking everything, and is gone with the process.
"""

import sqlite3
import time
from contextlib import closing
from pathlib import Path

import sqlalchemy.exc
from optuna.storages import BaseStorage, RDBStorage

from tuner.study.storage.open_storage import IN_MEMORY, file_of
from tuner.study.storage.retries import StorageLostError


class StorageFile:
    """The file behind a storage that has just been opened.

    Args:
        url: Of the storage.
        storage: As Optuna has it open.
    """

    def __init__(self, url: str, storage: BaseStorage) -> None:
        is_file = url.startswith(("sqlite:", "journal:")) and url not in IN_MEMORY
        self._path = file_of(url).absolute() if is_file else None
        self._storage = storage
        self._identity = self._look()

    def check(self) -> None:
        """Sees to it that it is still there.

        Raises:
            StorageLostError: It was deleted, moved or replaced; says where its content is.
        """
        if self._look() == self._identity:
            return
        assert self._path is not None
        saved = self._save(self._path)
        remedy = (
            f"All that it held is in {saved}: move that to {self._path.name}, and the same command goes on."
            if saved is not None
            else "Put it back, and the same command goes on; without it, study.name=... begins another study."
        )
        raise StorageLostError(
            f"the storage file {self._path} was deleted or replaced while the study ran; it was stopped.\n{remedy}"
        )

    def _look(self) -> tuple[int, int] | None:
        if self._path is None:
            return None
        try:
            about = self._path.stat()
        except OSError:
            return None
        return about.st_dev, about.st_ino

    def _save(self, path: Path) -> Path | None:
        """A copy of what the open database holds; None where that cannot be had."""
        if not isinstance(self._storage, RDBStorage):
            return None
        saved = path.with_name(f"{path.name}.saved-{time.strftime('%Y%m%d-%H%M%S')}")
        try:
            with closing(self._storage.engine.raw_connection()) as held, closing(sqlite3.connect(saved)) as copy:
                connection: sqlite3.Connection = held.driver_connection  # type: ignore[assignment]
                if not _holds_studies(connection):
                    return None
                connection.backup(copy)
        except (sqlite3.Error, sqlalchemy.exc.SQLAlchemyError):
            return None
        return saved


def _holds_studies(connection: sqlite3.Connection) -> bool:
    """Whether a connection is to the database as it was, and not to a new, empty one in its place."""
    return connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'studies'").fetchone() is not None
