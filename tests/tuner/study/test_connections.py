"""A database that hangs without refusing, without a database: what waits is a socket."""

import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext

import pytest
import sqlalchemy
from sqlalchemy.engine import make_url

from tuner.study.control import Interrupts
from tuner.study.storage import connections as lines
from tuner.study.storage.connections import DatabaseConnections, GivenUpError
from tuner.study.storage.retries import StorageLostError, with_retries
from tuner.support.interrupts import EXIT_INTERRUPTED


class Lost(sqlalchemy.exc.OperationalError):
    def __init__(self) -> None:
        super().__init__("SELECT 1", {}, ConnectionError("server closed the connection"))


class Connection:
    """A driver's connection to a server that never says anything."""

    def __init__(self) -> None:
        self.sock, self.server = socket.socketpair()
        self.asked = 0

    def fileno(self) -> int:
        return self.sock.fileno()

    def ask(self) -> bytes:
        self.asked += 1
        if not self.sock.recv(1):
            raise Lost
        return b"answer"

    def close(self) -> None:
        self.sock.close()
        self.server.close()


@pytest.fixture
def connection() -> Iterator[Connection]:
    made = Connection()
    yield made
    made.close()


@pytest.fixture
def line(connection: Connection) -> Iterator[DatabaseConnections]:
    made = DatabaseConnections()
    made._opened(connection, None)
    yield made
    made.close()


def after(seconds: float, work: Callable[[], object]) -> threading.Timer:
    timer = threading.Timer(seconds, work)
    timer.start()
    return timer


def test_a_call_without_an_answer_is_hung_up(
    line: DatabaseConnections, connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lines, "ANSWER_TIMEOUT_S", 0.2)
    monkeypatch.setattr(lines, "_POLL_S", 0.05)
    with pytest.raises(Lost), line.call():
        connection.ask()
    assert not line.given_up
    assert not line.is_waiting


def test_a_call_that_is_answered_is_left_alone(line: DatabaseConnections, connection: Connection) -> None:
    after(0.1, lambda: connection.server.send(b"!"))
    with line.call():
        assert line.is_waiting
        assert connection.ask() == b"answer"
    assert not line.give_up(), "nothing is waited for"
    assert not line.given_up


def test_a_call_that_is_given_up_is_the_last_one(line: DatabaseConnections, connection: Connection) -> None:
    after(0.1, line.give_up)
    ask = with_retries(connection.ask, line)
    with pytest.raises(KeyboardInterrupt):
        ask()
    with pytest.raises(StorageLostError, match="stopped while the database did not answer"):
        ask()
    with pytest.raises(GivenUpError):
        line._begins_to_connect(None, None, None, None)
    assert connection.asked == 1


def test_between_two_tries_nothing_is_waited_for(line: DatabaseConnections) -> None:
    seen: list[tuple[bool, bool]] = []

    def fail() -> None:
        seen.append((line.is_waiting, line.give_up()))
        raise ValueError

    with line.call():
        with line.pause():
            seen.append((line.is_waiting, line.give_up()))
        with pytest.raises(KeyboardInterrupt):
            with_retries(fail, line)()
        line.given_up = False
    assert seen == [(False, False), (True, True)]


def test_while_connecting_there_is_nothing_to_hang_up(line: DatabaseConnections) -> None:
    def connect() -> None:
        with line.call():
            line._begins_to_connect(None, None, None, None)
            assert not line.give_up(), "it does not end by itself"

    with pytest.raises(KeyboardInterrupt):
        connect()
    assert line.given_up


@contextmanager
def deaf() -> Iterator[None]:
    """The main thread as it is in a driver written in C: no handler runs until it is back."""
    signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT,))
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, (signal.SIGINT,))


@pytest.mark.parametrize("is_deaf", [False, True])
def test_the_second_ctrl_c_ends_a_call_that_no_signal_reaches(
    line: DatabaseConnections, connection: Connection, is_deaf: bool
) -> None:
    """Without it the call has an end only when this test gives it one, which it says."""
    unblocked: list[bool] = []
    rescue = after(30.0, lambda: (unblocked.append(True), connection.server.close()))
    interrupts = Interrupts(line)
    presses = [after(delay, lambda: os.kill(os.getpid(), signal.SIGINT)) for delay in (0.1, 0.4)]
    with (
        pytest.raises(KeyboardInterrupt),
        interrupts.handling_signals(),
        line.call(),
        deaf() if is_deaf else nullcontext(),
    ):
        connection.ask()
    for timer in presses:
        timer.join()
    rescue.cancel()
    assert not unblocked
    assert line.given_up


def test_the_first_ctrl_c_only_asks(
    line: DatabaseConnections, connection: Connection, caplog: pytest.LogCaptureFixture
) -> None:
    interrupts = Interrupts(line)
    after(0.1, lambda: os.kill(os.getpid(), signal.SIGINT))
    after(0.4, lambda: connection.server.send(b"!"))
    with interrupts.handling_signals(), line.call():
        assert connection.ask() == b"answer"
    assert interrupts.requested
    assert interrupts.reason == "SIGINT"
    assert "stopping once the database answers; a second Ctrl-C ends it at once" in caplog.text
    with interrupts.handling_signals(), pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)


STUCK = """
import os, signal, sys, threading, time
from tuner.study import control

class Stuck:
    is_waiting = True

    def give_up(self):
        return True  # it says so, and is not right

control.LAST_RESORT_S = 0.2
for delay in (0.3, 0.6):
    threading.Timer(delay, os.kill, (os.getpid(), signal.SIGINT)).start()
with control.Interrupts(Stuck()).handling_signals():
    time.sleep(60)
"""


def test_what_cannot_be_woken_is_left() -> None:
    import subprocess

    done = subprocess.run([sys.executable, "-c", STUCK], capture_output=True, text=True, timeout=50)
    assert done.returncode == EXIT_INTERRUPTED
    assert "ended without an answer of the database; the same command goes on" in done.stderr


def options_of(url: str) -> dict[str, object]:
    return dict(DatabaseConnections().engine_options(make_url(url))["connect_args"])


def test_every_driver_gets_time_limits() -> None:
    for driver in ("psycopg", "psycopg2"):
        told = options_of(f"postgresql+{driver}://me@host/db")
        assert told["connect_timeout"] == 10
        assert told["keepalives_idle"] == 30
        assert told["tcp_user_timeout"] == 60_000
    for driver in ("pymysql", "mysqldb"):
        told = options_of(f"mysql+{driver}://me@host/db")
        assert (told["connect_timeout"], told["read_timeout"], told["write_timeout"]) == (10, 60, 60)
    assert options_of("oracle://me@host/db") == {}


def test_what_the_url_says_comes_first() -> None:
    own = DatabaseConnections().engine_options(
        make_url("postgresql+psycopg://host/db?connect_timeout=3&options=-c%20statement_timeout%3D5")
    )
    assert "connect_timeout" not in own["connect_args"]
    assert [event for _, event in own["pool_events"]] == ["connect", "close"], "no limit of ours"
