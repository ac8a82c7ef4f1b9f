"""Studies in a database server: a PostgreSQL of the test's own, thrown away afterwards (-m database)."""

import os
import shutil
import signal
import subprocess
import threading
from collections.abc import Iterator
from contextlib import suppress
from glob import glob
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.tuner.studies import ControllerDied, FakeExecutor, run_study
from tuner.errors import UserError
from tuner.study import StudyStopped, StudyStore
from tuner.study.storage.open_storage import open_storage
from tuner.study.storage.retries import RetryingStorage

pytestmark = pytest.mark.database


def program(name: str) -> str:
    """Debian keeps the server's programs out of the path."""
    found = shutil.which(name) or max(glob(f"/usr/lib/postgresql/*/bin/{name}"), default=None)
    assert found, f"{name} is not installed; install PostgreSQL, or leave -m database out"
    return found


def as_server(*command: str) -> None:
    """Runs a program of the server, which refuses to work for root, and waits for it."""
    user = ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"] if os.geteuid() == 0 else []
    done = subprocess.run([*user, *command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert done.returncode == 0, done.stdout


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """The URL of an empty database, reached through a socket in the folder of the server alone."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        if os.geteuid() == 0:
            shutil.chown(folder, "postgres", "postgres")
        as_server(program("initdb"), "-D", f"{folder}/data", "-A", "trust", "-U", "tuner", "--no-sync")
        control = [program("pg_ctl"), "-D", f"{folder}/data"]
        as_server(*control, "-w", "-l", f"{folder}/log", "-o", f"-k {folder} -c listen_addresses='' -F", "start")
        try:
            yield f"postgresql+psycopg://tuner@/postgres?host={folder}"
        finally:
            as_server(*control, "-m", "immediate", "stop")


def test_a_study_runs_in_a_database_server_and_is_continued(server: str, tmp_path: Path) -> None:
    first = run_study(tmp_path / "runs", url=server)
    assert len(first.runs) == 14
    assert {run.outcome for run in first.runs} == {"complete"}
    again = FakeExecutor()
    assert run_study(tmp_path / "runs", again, url=server).runs == first.runs
    assert again.started == []


def test_a_controller_that_dies_is_followed_by_one_that_repeats_nothing(server: str, tmp_path: Path) -> None:
    started: list[str] = []
    for num_events in (9, 25, 60):
        executor = FakeExecutor(die_after=num_events)
        with pytest.raises(ControllerDied):
            run_study(tmp_path / "runs", executor, url=server, name="dying")
        started += [spec.key for spec in executor.started]
    executor = FakeExecutor()
    summary = run_study(tmp_path / "runs", executor, url=server, name="dying")
    assert len(summary.runs) == 14
    assert {run.outcome for run in summary.runs} == {"complete"}
    finished = set(started) - {spec.key for spec in executor.started}
    assert len(finished) + len(executor.started) == 14


def test_studies_of_one_server_are_listed(server: str, tmp_path: Path) -> None:
    run_study(tmp_path / "runs", url=server, name="listed", num_trials=1, num_candidates=1)
    with StudyStore(server) as store:
        assert "listed" in store.names()


def test_a_server_that_does_not_answer_is_reported_in_a_line(server: str) -> None:
    with pytest.raises(UserError, match=r"cannot be opened: .*; check the address, that it runs, and your rights"):
        open_storage(server.replace("host=", "host=/nowhere"))


def control(server: str, *command: str) -> None:
    folder = server.partition("host=")[2]
    options = ["-w", "-l", f"{folder}/log", "-o", f"-k {folder} -c listen_addresses='' -F"]
    as_server(program("pg_ctl"), "-D", f"{folder}/data", *(options if command[0] == "start" else []), *command)


@pytest.mark.slow
def test_a_study_waits_for_a_server_that_is_started_again(server: str, tmp_path: Path) -> None:
    executor, seen = FakeExecutor(2), [0]

    def restart(event: object) -> None:
        seen[0] += 1
        if seen[0] in (20, 50):
            control(server, "stop", "-m", "immediate")
            threading.Timer(0.5, control, (server, "start")).start()

    executor.on_event = restart
    summary = run_study(tmp_path / "runs", executor, url=server, name="waiting")
    assert len(summary.runs) == 14
    assert {run.outcome for run in summary.runs} == {"complete"}
    assert len({spec.key for spec in executor.started}) == len(executor.started)


def test_a_study_whose_server_stays_away_ends_and_goes_on_later(
    server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tuner.study.storage.retries.PATIENCE_S", 2.0)
    executor = FakeExecutor(2)
    stopped: list[bool] = []

    def stop(event: object) -> None:
        if len(executor.verdicts) == 12 and not stopped:
            stopped.append(True)
            control(server, "stop", "-m", "immediate")

    executor.on_event = stop
    try:
        with pytest.raises(UserError, match="has not answered for 2 s"):
            run_study(tmp_path / "runs", executor, url=server, name="lost")
    finally:
        control(server, "start")
    again = FakeExecutor(2)
    summary = run_study(tmp_path / "runs", again, url=server, name="lost")
    assert len(summary.runs) == 14
    assert {run.outcome for run in summary.runs} == {"complete"}


class Ice:
    """Stops the server where it stands: it refuses nothing and answers nothing."""

    def __init__(self, server: str) -> None:
        self._postmaster = int((Path(server.partition("host=")[2]) / "data/postmaster.pid").read_text().split()[0])
        self.is_frozen = False

    def _signal(self, number: int) -> None:
        children = Path(f"/proc/{self._postmaster}/task/{self._postmaster}/children").read_text().split()
        for pid in (self._postmaster, *map(int, children)):
            with suppress(ProcessLookupError):  # one that has just ended
                os.kill(pid, number)

    def freeze(self) -> None:
        self.is_frozen = True
        self._signal(signal.SIGSTOP)

    def melt(self) -> None:
        self.is_frozen = False
        self._signal(signal.SIGCONT)


@pytest.fixture
def ice(server: str) -> Iterator[Ice]:
    made = Ice(server)
    yield made
    made.melt()


def test_timeouts_reach_the_server_and_the_driver(server: str) -> None:
    for url, seconds in ((server, "10"), (f"{server}&connect_timeout=3", "3")):
        storage = open_storage(url)
        assert isinstance(storage, RetryingStorage)
        with storage.engine.connect() as connection:
            assert connection.exec_driver_sql("SHOW statement_timeout").scalar_one() == "1min"
            parameters = connection.connection.dbapi_connection.info.get_parameters()  # type: ignore[union-attr]
            assert parameters["connect_timeout"] == seconds
            assert parameters["tcp_user_timeout"] == "60000"
        storage.engine.dispose()
        storage.connections.close()


def test_a_study_waits_for_a_server_that_hangs(
    server: str, ice: Ice, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("tuner.study.storage.connections.ANSWER_TIMEOUT_S", 1.0)
    monkeypatch.setattr("tuner.study.storage.connections._POLL_S", 0.1)
    executor, timers = FakeExecutor(2), list[threading.Timer]()

    def freeze(event: object) -> None:
        if len(executor.verdicts) == 12 and not timers:
            ice.freeze()
            timers.append(threading.Timer(2.0, ice.melt))
            timers[0].start()

    executor.on_event = freeze
    summary = run_study(tmp_path / "runs", executor, url=server, name="hanging")
    timers[0].join()
    assert "the database has not answered for 1 s; connecting anew" in caplog.text
    assert len(summary.runs) == 14
    assert {run.outcome for run in summary.runs} == {"complete"}
    assert len({spec.key for spec in executor.started}) == len(executor.started)


def test_two_ctrl_c_end_a_study_whose_server_hangs(server: str, ice: Ice, tmp_path: Path) -> None:
    executor = FakeExecutor(2)
    timers: list[threading.Timer] = []

    def freeze(event: object) -> None:
        if len(executor.verdicts) == 30 and not timers:
            ice.freeze()
            timers.extend(threading.Timer(s, os.kill, (os.getpid(), signal.SIGINT)) for s in (0.5, 1.0))
            timers.append(threading.Timer(90.0, ice.melt))  # so that the test has an end if the study has none
            for timer in timers:
                timer.start()

    executor.on_event = freeze
    with pytest.raises(StudyStopped, match=r"stopped by SIGINT with (1 run|2 runs) under way"):
        run_study(tmp_path / "runs", executor, url=server, name="ended")
    assert ice.is_frozen, "it was the second Ctrl-C that ended it"
    timers[-1].cancel()
    ice.melt()
    again = FakeExecutor(2)
    summary = run_study(tmp_path / "runs", again, url=server, name="ended")
    assert len(summary.runs) == 14
    assert {run.outcome for run in summary.runs} == {"complete"}
    both = {spec.key for spec in executor.started} & {spec.key for spec in again.started}
    assert len(both) <= 2, "only what was under way is started again"
    assert len({spec.key for spec in [*executor.started, *again.started]}) == 14
