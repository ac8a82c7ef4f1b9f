"""Fixtures of the tests of the learner of Keras agents."""

import pytest

from note_rl import errors


@pytest.fixture
def said_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """Messages that come once in a process come again."""
    monkeypatch.setattr(errors, "_said", set())
