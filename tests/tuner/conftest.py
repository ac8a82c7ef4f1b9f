"""Fixtures of the tests of `tuner`."""

from collections.abc import Iterator

import pytest

from tests.fuzzing.composing import remembering_files
from tests.tuner.command_line import tuner

__all__ = ["tuner"]


@pytest.fixture(autouse=True, scope="session")
def _files_read_once() -> Iterator[None]:
    """Composing takes a third of a second, and several are composed for a command."""
    with remembering_files():
        yield
