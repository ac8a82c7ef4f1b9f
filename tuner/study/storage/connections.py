"""Connections to a database server: how long an answer may take, and how a call is ended that gets none.

A server that is gone refuses, and the driver says so. One that hangs (stopped, swapped out, behind a network that
drops packets) leaves the driver waiting for ever, and most drivers wait where no signal of Python's reaches them. What
ends such a wait in all of them is the end of the connection: its socket is shut down from outside, and the driver
returns with an error as if the server had closed it.
"""

import logging
import os
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final

import sqlalchemy
from sqlalchemy.engine import URL

CONNECT_TIMEOUT_S: Final = 10
ANSWER_TIMEOUT_S: Final = 60.0
"""For one call of the storage, which is a few statements; the largest takes a second or two."""

_log = logging.getLogger(__name__)
_POLL_S: Final = 1.0
_MS: Final = 1000
_LIBPQ: Final = {
    "connect_timeout": CONNECT_TIMEOUT_S,
    "keepalives": 1,
    "keepalives_idle": 30,
    "keepalives_interval": 10,
    "keepalives_count": 3,
    "tcp_user_timeout": round(ANSWER_TIMEOUT_S * _MS),
}
_MYSQL: Final = {
    "connect_timeout": CONNECT_TIMEOUT_S,
    "read_timeout": round(ANSWER_TIMEOUT_S),
    "write_timeout": round(ANSWER_TIMEOUT_S),
}
_OPTIONS: Final[dict[str, dict[str, int]]] = {
    "psycopg": _LIBPQ,
    "psycopg2": _LIBPQ,
    "pymysql": _MYSQL,
    "mysqldb": _MYSQL,
    "mariadbconnector": _MYSQL,
    "mysqlconnector": {"connection_timeout": CONNECT_TIMEOUT_S},
    "pg8000": {"timeout": round(ANSWER_TIMEOUT_S)},
}
"""The drivers' names for their timeouts; see the documentation of libpq, PyMySQL, mysqlclient and so on."""


class GivenUpError(Exception):
    """Nothing is asked of the database any more: the user did not want to wait for it."""


class DatabaseConnections:
    """All connections of one storage.

    Attributes:
        given_up: Whether the user has ended a call that got no answer. No further one is made.
    """

    def __init__(self) -> None:
        self.given_up = False
        self._connections: dict[int, Any] = {}
        self._since: float | None = None
        self._connecting = False
        self._closed = threading.Event()
        self._watcher: threading.Thread | None = None

    def engine_options(self, url: URL) -> dict[str, Any]:
        """Arguments of `sqlalchemy.create_engine`: timeouts, but for those that the URL sets itself."""
        options = _OPTIONS.get(url.get_driver_name(), {})
        events: list[tuple[Any, str]] = [(self._opened, "connect"), (self._gone, "close")]
        if options is _LIBPQ and "statement_timeout" not in str(url.query):
            events.insert(0, (_limit_statements, "connect"))
        return {
            "pool_pre_ping": True,
            "connect_args": {name: value for name, value in options.items() if name not in url.query},
            "pool_events": events,
        }

    def watch_connecting(self, engine: sqlalchemy.Engine) -> None:
        """While a connection is being made, there is none that could be hung up."""
        sqlalchemy.event.listen(engine, "do_connect", self._begins_to_connect)

    @property
    def is_waiting(self) -> bool:
        """Whether a call is under way."""
        return self._since is not None

    @contextmanager
    def call(self) -> Iterator[None]:
        """One call to the server; it is hung up if it takes longer than `ANSWER_TIMEOUT_S`.

        Raises:
            GivenUpError: The user had given up before.
            KeyboardInterrupt: The user gives up meanwhile.
        """
        if self.given_up:
            raise GivenUpError
        self._watch()
        before, self._since = self._since, time.monotonic()
        try:
            yield
        except BaseException:
            if self.given_up:
                raise KeyboardInterrupt from None
            raise
        finally:
            self._since, self._connecting = before, False
        if self.given_up:
            raise KeyboardInterrupt

    @contextmanager
    def pause(self) -> Iterator[None]:
        """Time between two tries of a call, in which nothing is waited for."""
        before, self._since = self._since, None
        try:
            yield
        finally:
            self._since = before

    def give_up(self) -> bool:
        """Ends the call that is under way, from a signal handler or another thread; `call` raises KeyboardInterrupt.

        Returns:
            Whether there was one, and it ends by itself now.
        """
        if self._since is None:
            return False
        self.given_up = True
        return self.hang_up() > 0 and not self._connecting

    def hang_up(self) -> int:
        """Shuts all connections down; a caller that waits for an answer gets an error. Returns how many there were."""
        return sum(_shut_down(connection) for connection in list(self._connections.values()))

    def close(self) -> None:
        """Nobody calls any more."""
        self._closed.set()

    def _watch(self) -> None:
        if self._watcher is None:
            self._watcher = threading.Thread(target=self._hang_up_when_silent, name="database-watch", daemon=True)
            self._watcher.start()

    def _hang_up_when_silent(self) -> None:
        hung_up = 0.0
        while not self._closed.wait(_POLL_S):
            since = self._since
            if since is not None and time.monotonic() - max(since, hung_up) > ANSWER_TIMEOUT_S:
                _log.warning("the database has not answered for %g s; connecting anew", ANSWER_TIMEOUT_S)
                self.hang_up()
                hung_up = time.monotonic()

    def _begins_to_connect(self, dialect: Any, record: Any, arguments: Any, options: Any) -> None:
        if self.given_up:
            raise GivenUpError
        self._connecting = True

    def _opened(self, connection: Any, record: Any) -> None:
        self._connecting = False
        self._connections[id(connection)] = connection

    def _gone(self, connection: Any, record: Any) -> None:
        self._connections.pop(id(connection), None)


def _limit_statements(connection: Any, record: Any) -> None:
    """Has PostgreSQL itself end a statement that takes too long, one that waits for a lock among them."""
    with connection.cursor() as cursor:
        cursor.execute(f"SET statement_timeout = {round(ANSWER_TIMEOUT_S * _MS)}")
    connection.commit()  # or the first rollback would take it back


def _shut_down(connection: Any) -> bool:
    """Ends a connection below the driver, which does not know of it. Whether that could be done."""
    if getattr(connection, "closed", False):
        return False
    owner = next((found for name in ("_sock", "_usock") if (found := getattr(connection, name, None))), connection)
    with suppress(OSError, AttributeError, ValueError):  # closed meanwhile, or a driver that hides its socket
        with socket.socket(fileno=os.dup(owner.fileno())) as ours:
            ours.shutdown(socket.SHUT_RDWR)
        return True
    return False
