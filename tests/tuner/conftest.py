"""Fixtures of the tests of `tuner`."""

from collections.abc import Iterator

import pytest

from tests.tuner.command_line import files_read_once, tuner

__all__ = ["files_read_once", "tuner"]


@pytest.fixture(autouse=True, scope="session")
def little_patience() -> Iterator[None]:
    """Databases here are damaged rather than being made: waiting for the rest of one tells the same sooner."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tuner.study.storage.open_storage._BEING_MADE_S", 1.0)
        yield
