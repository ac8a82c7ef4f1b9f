"""Fixtures of the tests of environments."""

import logging

import pytest


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    monkeypatch.setattr("note_rl.environments.long_episodes.LONG", 20)
    monkeypatch.setattr("note_rl.environments.long_episodes.LONGEST", 30)
    monkeypatch.setattr("note_rl.errors._said", set())
    caplog.set_level(logging.WARNING)
    return caplog
