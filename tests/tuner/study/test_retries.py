"""Calls to a storage that fail are tried again, for a while."""

import logging
from collections.abc import Callable
from typing import Any

import pytest
import sqlalchemy.exc
from optuna.exceptions import StorageInternalError

from tuner.study.storage.retries import PATIENCE_S, StorageLostError, with_retries


class Clock:
    """Time that passes only when somebody sleeps."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 0.0
        self.pauses: list[float] = []
        monkeypatch.setattr("tuner.study.storage.retries.time.monotonic", lambda: self.now)
        monkeypatch.setattr("tuner.study.storage.retries.time.sleep", self.sleep)

    def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.now += seconds


def lost(kind: type[sqlalchemy.exc.DBAPIError] = sqlalchemy.exc.OperationalError) -> StorageInternalError:
    """As Optuna passes on that PostgreSQL has gone."""

    class Gone(Exception):  # noqa: N818
        __module__ = "psycopg.errors"

    error = StorageInternalError("An exception is raised during the commit.")
    error.__cause__ = kind("SELECT 1", None, Gone("server closed the connection unexpectedly\n\tThis probably means"))
    return error


def failing(times: int, error: Callable[[], Exception]) -> Callable[[], str]:
    left = [times]

    def call() -> str:
        left[0] -= 1
        if left[0] >= 0:
            raise error()
        return "answer"

    return call


def test_a_call_is_tried_again_with_growing_pauses(monkeypatch: pytest.MonkeyPatch, caplog: Any) -> None:
    clock = Clock(monkeypatch)
    with caplog.at_level(logging.WARNING):
        assert with_retries(failing(9, lost))() == "answer"
    assert clock.pauses == [0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0, 30.0]
    assert "server closed the connection unexpectedly" in caplog.text


def test_patience_ends_with_a_clear_word(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    with pytest.raises(StorageLostError) as raised:
        with_retries(failing(1000, lost))()
    assert PATIENCE_S - 31.0 <= clock.now <= PATIENCE_S
    assert str(raised.value).startswith("the database has not answered for 300 s: server closed the connection")
    assert "the same command goes on" in str(raised.value)


@pytest.mark.parametrize(
    "error",
    [
        lambda: lost(sqlalchemy.exc.IntegrityError),
        lambda: StorageInternalError("something else"),
        lambda: sqlalchemy.exc.OperationalError("x", None, __import__("sqlite3").OperationalError("disk is full")),
    ],
)
def test_other_errors_are_not_waited_for(monkeypatch: pytest.MonkeyPatch, error: Callable[[], Exception]) -> None:
    clock = Clock(monkeypatch)
    with pytest.raises((StorageInternalError, sqlalchemy.exc.OperationalError)):
        with_retries(failing(1, error))()
    assert clock.pauses == []
