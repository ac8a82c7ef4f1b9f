"""Storages: what is opened, repaired, refused, and left untouched."""

import os
import random
import sqlite3
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import optuna
import psutil
import pytest
import sqlalchemy
import sqlalchemy.exc
from optuna.storages._rdb.models import BaseModel

from tests.tuner.studies import FakeExecutor, run_study, warm_processes
from tuner.errors import UserError
from tuner.study import StudyStore
from tuner.study.storage import open_storage as storage
from tuner.study.storage.open_storage import file_of, has_studies, open_storage, repair_journal
from tuner.support.passwords import shown, without_password


def refusal(url: str) -> str:
    with pytest.raises(UserError) as raised:
        open_storage(url)
    message = str(raised.value)
    assert len(message.splitlines()) <= 2
    return message


@pytest.mark.parametrize("kind", ["sqlite", "journal", "memory"])
def test_a_study_runs_in_every_kind_of_storage(tmp_path: Path, kind: str) -> None:
    url = "memory" if kind == "memory" else f"{kind}:///{tmp_path}/deep/in/studies"
    first = run_study(tmp_path / "runs", url=url)
    assert len(first.runs) == 14
    if kind != "memory":
        again = FakeExecutor()
        assert run_study(tmp_path / "runs", again, url=url).runs == first.runs
        assert again.started == []


def test_what_was_in_memory_is_gone_and_its_folders_do_not_mislead(tmp_path: Path) -> None:
    first = run_study(tmp_path, url="memory")
    executor = FakeExecutor()
    second = run_study(tmp_path, executor, url="memory")
    assert len(executor.started) == 14
    assert [run.value for run in first.runs] == [run.value for run in second.runs]


def test_passwords_are_not_shown() -> None:
    assert "secret" not in refusal("postgresql+psycopg://me:secret@localhost:1/x")
    assert shown("postgresql://me:secret@host/x") == "postgresql://me:***@host/x"
    for key in ("storage.url", "+storage.url", "hydra.sweeper.storage"):
        assert without_password(f"{key}=postgresql://me:secret@host/x") == f"{key}=postgresql://me:***@host/x"
    assert without_password("agent.gamma=0.5") == "agent.gamma=0.5"
    assert shown("sqlite:///studies.db") == "sqlite:///studies.db"
    assert shown("memory") == "memory"


def test_files_behind_urls() -> None:
    assert file_of("sqlite:///studies.db") == Path("studies.db")
    assert file_of("sqlite:////tmp/studies.db") == Path("/tmp/studies.db")
    assert file_of("journal:///a/studies.journal") == Path("a/studies.journal")
    assert file_of("sqlite:///studies.db?mode=ro") == Path("studies.db")


def test_the_file_of_an_escaped_url_is_the_one_that_is_written(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/my%20studies.db"
    with StudyStore(url) as store:
        store.open("study", "screen")
    assert [path.name for path in tmp_path.glob("*.db")] == [file_of(url).name]
    assert has_studies(url)


def test_sqlite_writes_ahead_and_waits_for_others(tmp_path: Path) -> None:
    with StudyStore(f"sqlite:///{tmp_path}/studies.db") as store:
        store.open("study", "screen")
        with closing(sqlite3.connect(tmp_path / "studies.db")) as connection:
            assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        engine = store._storage.engine  # type: ignore[attr-defined]
        with engine.connect() as connection:
            assert connection.exec_driver_sql("PRAGMA busy_timeout").scalar() == 60_000


def damaged(path: Path) -> bytes:
    """A study database with rubbish in the middle."""
    with StudyStore(f"sqlite:///{path}") as store:
        study = store.open("study", "screen")
        for _ in range(40):
            study.add_trial(optuna.trial.create_trial(value=1.0, user_attrs={"text": "x" * 2000}))
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    content = bytearray(path.read_bytes())
    content[8192:16384] = random.Random(0).randbytes(8192)
    path.write_bytes(content)
    return bytes(content)


def test_a_damaged_database_is_refused_and_left_untouched(tmp_path: Path) -> None:
    path = tmp_path / "studies.db"
    content = damaged(path)
    assert "is not a sound SQLite database" in refusal(f"sqlite:///{path}")
    assert path.read_bytes() == content


@pytest.mark.parametrize("content", [b"not a database at all" * 100, b"SQLite format 3\0" + b"\1" * 500, b"x"])
def test_a_file_that_is_no_database_is_refused_and_left_untouched(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "studies.db"
    path.write_bytes(content)
    message = refusal(f"sqlite:///{path}")
    assert "it is left untouched" in message
    assert "storage.url=sqlite:///another.db" in message
    assert path.read_bytes() == content
    assert os.listdir(tmp_path) == ["studies.db"]


def test_somebody_elses_database_is_refused_and_left_untouched(tmp_path: Path) -> None:
    path = tmp_path / "accounts.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE accounts (id INTEGER)")
        connection.commit()
    before = path.read_bytes()
    assert "holds something else than studies (table accounts)" in refusal(f"sqlite:///{path}")
    assert path.read_bytes() == before


def test_a_database_of_another_optuna_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "studies.db"
    StudyStore(f"sqlite:///{path}").close()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("UPDATE alembic_version SET version_num = 'v99.0.0'")
        connection.execute("UPDATE version_info SET library_version = '99.0.0', schema_version = 99")
        connection.commit()
    assert "was written by another version of Optuna" in refusal(f"sqlite:///{path}")


def test_a_journal_of_a_newer_optuna_is_refused_and_left_untouched(tmp_path: Path) -> None:
    run_study(tmp_path)
    path = tmp_path / "studies.journal"
    with path.open("a") as file:
        file.write('{"op_code": 99, "worker_id": "x"}\n')
    before = path.read_bytes()
    answer = refusal(f"journal:///{path}")
    assert "was written by a newer Optuna: line" in answer
    assert "pip install -U optuna" in answer
    assert path.read_bytes() == before


@pytest.mark.parametrize("kind", ["sqlite", "journal"])
def test_a_folder_that_cannot_be_used_is_refused(tmp_path: Path, kind: str) -> None:
    (tmp_path / "file").write_text("in the way")
    assert "cannot be written" in refusal(f"{kind}:///{tmp_path}/file/studies")
    assert "names no file; write sqlite:///studies.db or journal:///" in refusal(f"{kind}:///{tmp_path}")
    with pytest.raises(UserError, match=r"study folder .* cannot be used"):
        run_study(tmp_path / "file", url="memory")


def test_urls_that_lead_nowhere_are_refused() -> None:
    assert "is a file, and no URL: write sqlite:///studies.db" in refusal("studies.db")
    assert "is not a URL; write sqlite:///studies.db" in refusal("studies")
    assert "no kind of database is called sqlight; did you mean sqlite?" in refusal("sqlight:///studies.db")


def test_a_missing_driver_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "psycopg", None)
    assert "pip install 'psycopg[binary]'" in refusal("postgresql://localhost/studies")


RECORD = b'{"op_code":0,"worker_id":"a","study_name":"study","directions":[2]}\n'


@pytest.mark.parametrize("torn", [b'{"op_code":4,"worker', b'{"op_code":4}', b"\x00\x00\x00", b'{"op_code":4,"wor\n'])
def test_a_torn_last_record_is_cut_and_a_copy_kept(tmp_path: Path, torn: bytes) -> None:
    path = tmp_path / "studies.journal"
    path.write_bytes(RECORD + torn)
    told: list[str] = []
    with StudyStore(f"journal:///{path}", told.append) as store:
        assert store.others() == ["study"]
    assert path.read_bytes() == RECORD
    (copy,) = tmp_path.glob("studies.journal.torn-*")
    assert copy.read_bytes() == RECORD + torn
    assert len(told) == 1
    assert str(copy) in told[0]


def test_a_sound_journal_is_not_touched(tmp_path: Path) -> None:
    path = tmp_path / "studies.journal"
    path.write_bytes(RECORD)
    repair_journal(path)
    assert path.read_bytes() == RECORD
    assert os.listdir(tmp_path) == ["studies.journal"]


@pytest.mark.parametrize(
    "content", [b"hello\n" + RECORD, RECORD + b'{"op_code":4,"wor{"op_code":4}\n' + RECORD, b"[1]\n" * 9]
)
def test_a_damaged_journal_is_refused_and_left_untouched(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "studies.journal"
    path.write_bytes(content)
    message = refusal(f"journal:///{path}")
    assert "is damaged in line" in message
    assert "it is left untouched" in message
    assert path.read_bytes() == content


def open_and_close(url: str) -> str:
    with StudyStore(url) as store:
        return store.open("study", "screen").study_name


def test_words_about_damage_that_are_no_text_are_damage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    url = f"sqlite:///{tmp_path}/studies.db"
    StudyStore(url).close()

    class Connection(sqlite3.Connection):
        def execute(self, *arguments: Any) -> Any:
            return bytes([0xBF]).decode()  # what quick_check says of a damaged name

    connect = sqlite3.connect
    monkeypatch.setattr(storage.sqlite3, "connect", partial(connect, factory=Connection))
    with pytest.raises(UserError, match=r"is not a sound SQLite database \('utf-8' codec can't decode byte 0xbf"):
        StudyStore(url)


def test_a_database_that_was_left_while_it_was_made_is_made_whole(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/studies.db"
    engine = sqlalchemy.create_engine(url)
    BaseModel.metadata.create_all(engine, tables=BaseModel.metadata.sorted_tables[:5])
    engine.dispose()
    with closing(sqlite3.connect(tmp_path / "studies.db")) as database:
        database.execute("ALTER TABLE studies RENAME COLUMN study_name TO name")
        with pytest.raises(UserError, match="its table studies has no study_name"):
            StudyStore(url)
        database.execute("ALTER TABLE studies RENAME COLUMN name TO study_name")
    run_study(tmp_path, FakeExecutor(), url=url, num_trials=2)
    with StudyStore(url) as store:
        assert len(store.require("study").get_trials()) == 2
    with closing(sqlite3.connect(tmp_path / "studies.db")) as database:
        database.execute("DROP TABLE trial_params")
        database.commit()
    with pytest.raises(UserError, match="it has no table trial_params"):
        StudyStore(url)


def test_an_unknown_kind_of_value_is_damage(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/studies.db"
    run_study(tmp_path, FakeExecutor(), url=url, num_trials=2)
    with closing(sqlite3.connect(tmp_path / "studies.db")) as database:
        database.execute("UPDATE trial_values SET value_type = 'x'")
        database.commit()
    with StudyStore(url) as store, pytest.raises(UserError, match=r"is damaged, .* \(LookupError: 'x' is not among"):
        store.find("study")


def test_a_database_that_another_process_made_meanwhile_is_closed_with_the_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make, calls = BaseModel.metadata.create_all, []

    def make_too_late(engine: sqlalchemy.Engine) -> None:
        calls.append(engine)
        make(engine)
        with engine.connect() as connection:  # stays open in the engine's pool
            connection.execute(sqlalchemy.text("SELECT 1"))
        if len(calls) == 1:
            raise sqlalchemy.exc.OperationalError("CREATE TABLE studies", (), Exception("table studies already exists"))

    monkeypatch.setattr(BaseModel.metadata, "create_all", make_too_late)
    with StudyStore(f"sqlite:///{tmp_path}/studies.db") as store:
        assert store.names() == []
    assert len(calls) == 2
    opened = [entry.path for entry in psutil.Process().open_files()]
    assert not any(path.startswith(str(tmp_path)) for path in opened)


def test_a_database_that_another_process_is_making_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin, calls = storage._use_write_ahead_log, []

    def begin_too_early(connection: sqlite3.Connection, record: object) -> None:
        calls.append(record)
        if len(calls) == 1:  # two that both read and want to write: SQLite lets neither wait
            raise sqlite3.OperationalError("database is locked")
        begin(connection, record)

    monkeypatch.setattr(storage, "_use_write_ahead_log", begin_too_early)
    with StudyStore(f"sqlite:///{tmp_path}/studies.db") as store:
        assert store.open("study", "screen").study_name == "study"
    assert len(calls) > 1


def test_several_processes_can_make_the_same_database(tmp_path: Path) -> None:
    with warm_processes().Pool(4) as pool:
        urls = [f"sqlite:///{tmp_path}/{number}.db" for number in range(3) for _ in range(4)]
        assert pool.map(open_and_close, urls, chunksize=1) == ["study"] * 12
