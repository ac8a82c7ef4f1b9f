"""Fixtures of the tests of `tuner`."""

from collections.abc import Iterator

import pytest
from alembic.script import ScriptDirectory
from optuna.storages._rdb.storage import _VersionManager

from tests.tuner.command_line import files_read_once, tuner

__all__ = ["files_read_once", "tuner"]


@pytest.fixture(autouse=True, scope="session")
def little_patience() -> Iterator[None]:
    """Databases here are damaged rather than being made: waiting for the rest of one tells the same sooner."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tuner.study.storage.open_storage._BEING_MADE_S", 1.0)
        yield


@pytest.fixture(autouse=True, scope="session")
def versions_read_once() -> Iterator[None]:
    """Optuna reads all versions of its tables up to three times to open a database, which takes most of that time."""
    read, known = _VersionManager._create_alembic_script, list[ScriptDirectory]()

    def read_once(manager: _VersionManager) -> ScriptDirectory:
        if not known:
            known.append(read(manager))
        return known[0]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_VersionManager, "_create_alembic_script", read_once)
        yield
