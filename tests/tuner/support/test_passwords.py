"""A database's password is nowhere: not on the screen, not in a file, not in a storage."""

import os
import sqlite3
import sys
from pathlib import Path
from typing import Any

import pytest
from optuna.storages import RDBStorage

from tests.tuner.command_line import CommandLine
from tests.tuner.sweeper.test_plain_app import App
from tuner.cli import main
from tuner.errors import UserError
from tuner.study.storage.open_storage import open_storage
from tuner.support.passwords import command_line, hidden, shown, without_password

SECRET = "hunter2"
AWKWARD = (
    "se@cret",
    "se/cret",
    "se:cret",
    "se cret",
    "se?cret=1&x",
    "s'e\"cret",
    "%73ecret",
    "se#cret",
    "sécret",
    "{se}",
)


@pytest.mark.parametrize("password", [SECRET, *AWKWARD])
@pytest.mark.parametrize(
    "text",
    [
        "postgresql://me:{}@host/db",
        "postgresql+psycopg://me:{}@host:5432/db?sslmode=require",
        "mysql+pymysql://me@server:{}@host/db",
        "postgresql://me:{}@/db?host=/run/postgresql",
        "postgresql:/me:{}@host/db",
        "me:{}@host/db",
        "storage.url=postgresql://me:{}@host/db",
        "storage.url=me:{}@host",
        "++storage.url='postgresql://me:{}@host/db'",
        "storage={{url: 'postgresql://me:{}@host/db'}}",
        "+hydra.sweeper.storage={{url:postgresql://me:{}@host/db}}",
        "storage.url=${{oc.env:DB_URL,postgresql://me:{}@host/db}}",
        "cannot read 'storage.url=mysql://me:{}@host/db': quote it twice",
    ],
)
def test_every_way_to_write_a_url(text: str, password: str) -> None:
    for conceal in [without_password, *([] if "storage.url=me:" in text or text.startswith("me:") else [hidden])]:
        found = conceal(text.format(password)) if "=" in text or "://" in text else shown(text.format(password))
        assert password not in found
        assert "***@" in found
        assert "host" in found
        assert found.replace("***", password) == text.format(password) or text.split("=")[-1].startswith("me:")


@pytest.mark.parametrize(
    "text",
    [
        "postgresql:///db?host=h&password={}&user=u",
        "postgresql:///db?%70assword={}",
        "mysql://h/db?ssl_key=k&passwd={}",
        "postgresql://h/db?sslpassword={}",
        "storage.url=postgresql:///db?user=u&password={}",
        "connection failed: host=h password={} dbname=x: FATAL",
        "connection failed: host=h password='{} and more' dbname=x",
    ],
)
def test_every_way_to_write_a_parameter(text: str) -> None:
    for conceal in (hidden, without_password, shown):
        assert SECRET not in conceal(text.format(SECRET))
        assert "***" in conceal(text.format(SECRET))


@pytest.mark.parametrize(
    "text",
    [
        "agent.gamma=0.5",
        "storage.url=sqlite:///studies.db",
        "storage.url=journal:////a/b@c/studies.journal",
        "storage.url=${oc.env:DB_URL}",
        "storage.url=postgresql://host:5432/db",
        "storage.url=postgresql+psycopg://me@127.0.0.1:5432/db",
        "storage=journal",
        "memory",
        "it is at http://127.0.0.1:8080, ask me@example.com",
        "'+space.agent.tau={low: 0.005, high: 1.0, log: true}'",
        "tracker.project=a@b",
        "env.id=my_pkg:MyEnv-v0",
        "compass=north bypass=1",
    ],
)
def test_what_holds_no_password_stays_as_it_is(text: str) -> None:
    assert hidden(text) == text
    assert without_password(text) == text


def test_without_a_host_the_password_stands_where_the_port_would() -> None:
    assert hidden("storage.url=postgresql://me:hunter2") == "storage.url=postgresql://me:***"
    assert hidden("postgresql://host:5432/db") == "postgresql://host:5432/db"


def test_of_several_urls_each_is_kept_apart() -> None:
    text = "from postgresql://a:hunter2@one/x to mysql://b:hunter2@two/y"
    assert hidden(text) == "from postgresql://a:***@one/x to mysql://b:***@two/y"
    words = ["tuner", "tune", "storage.url=postgresql://a:hunter2@one/x", "tracker.entity=me@home"]
    assert command_line(words) == "tuner tune 'storage.url=postgresql://a:***@one/x' tracker.entity=me@home"


def test_an_at_sign_in_a_password_is_not_taken_for_the_host() -> None:
    with pytest.raises(UserError, match="write %40 in the place of each at sign") as raised:
        open_storage("postgresql+psycopg://me:hun@ter2@host/db")
    assert "ter2" not in str(raised.value)
    assert "write %40 in the place of each at sign" in hidden(str(raised.value)), "it is taken for a part of the URL"
    with pytest.raises(UserError, match="is not a URL") as raised:
        open_storage(f"postgresql://me:{SECRET}@host:port/db")
    assert SECRET not in str(raised.value)


@pytest.fixture
def database(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A server for every `postgresql+psycopg://`: a file, behind a door that forgets the password."""
    made = RDBStorage.__init__

    def connect(self: Any, url: str, **options: Any) -> None:
        assert SECRET in url
        made(self, f"sqlite:///{tmp_path}/server.db")

    monkeypatch.setattr("tuner.study.storage.retries.RDBStorage.__init__", connect)
    return tmp_path / "server.db"


STUDY = (
    *("agent=synthetic", "executor=inline", "tracker=jsonl", "study.num_trials=3", "study.name=s"),
    *("study.num_race=2", "study.num_race_seeds=1", "study.num_candidates=1"),  # each stage, and no more
    *("study.num_select_seeds=1", "study.num_test_seeds=1"),
)
URL = f"postgresql+psycopg://me:{SECRET}@host/db"


def check_nowhere(folder: Path) -> None:
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert files
    assert [path for path in files if SECRET.encode() in path.read_bytes()] == []


@pytest.mark.parametrize(
    ("typed", "kept"),
    [
        pytest.param(f"storage.url={URL}", "storage.url=postgresql+psycopg://me:***@host/db", marks=pytest.mark.slow),
        (f"storage={{url: '{URL}'}}", "url: '\"'\"'postgresql+psycopg://me:***@host/db"),
        ("storage.url=${oc.env:DB_URL}", "storage.url=${oc.env:DB_URL}"),
    ],
)
def test_a_study_leaves_no_password_anywhere(
    tuner: CommandLine, database: Path, monkeypatch: pytest.MonkeyPatch, typed: str, kept: str
) -> None:
    monkeypatch.setenv("DB_URL", URL)
    monkeypatch.setattr(sys, "argv", ["tuner", "tune", *STUDY, typed])
    assert main() == 0
    assert SECRET not in " ".join(sys.argv)
    answer = tuner("report", "s", typed)
    assert (answer.status, answer.errors) == (0, "")
    check_nowhere(tuner.folder)
    with sqlite3.connect(database) as connection:
        (command,) = connection.execute(
            "SELECT value_json FROM study_user_attributes JOIN studies USING (study_id) "
            "WHERE key = 'facts' AND study_name = 's'"
        ).fetchone()
    assert kept.replace('"', '\\"') in command
    assert kept in (tuner.folder / "studies/s/report.json").read_text().encode().decode("unicode_escape")


def test_ctrl_c_does_not_print_it(tuner: CommandLine, database: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tuner.study import StudyStopped

    def stop(*arguments: object, **options: object) -> None:
        raise StudyStopped(1)

    monkeypatch.setattr("tuner.commands.tune.tune", stop)
    monkeypatch.setattr("tuner.commands.find.find", stop)
    for command in (("tune", *STUDY), ("find", "lr", "tracker=jsonl")):
        answer = tuner(*command, f"storage={{url: '{URL}'}}")
        assert answer.status == 130
        assert SECRET not in answer.output + answer.errors
        assert "me:***@host/db" in answer.output


@pytest.mark.parametrize(
    "url", [f"postgresql://me:{SECRET} x@h/db", f"'postgresql://me:{SECRET}@h", f"postgresql://me:a,{SECRET}@h/db"]
)
def test_what_cannot_be_read_is_not_quoted_whole(tuner: CommandLine, url: str) -> None:
    answer = tuner("tune", f"storage.url={url}")
    assert answer.status == 2
    assert SECRET not in answer.errors + answer.output


def test_a_crash_does_not_print_it(tuner: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    def crash(*arguments: object) -> None:
        raise RuntimeError(f"cannot connect to {URL}")

    monkeypatch.setattr("tuner.commands.report.find", crash)
    answer = tuner("report", f"storage.url={URL}")
    assert answer.status == 1
    assert "cannot connect to postgresql+psycopg://me:***@host/db" in answer.errors
    assert SECRET not in answer.errors


@pytest.mark.filterwarnings("ignore:Query string argument")
def test_a_sweep_of_any_application_leaves_no_password(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    app = App(tmp_path)
    monkeypatch.setitem(os.environ, "DB_URL", "unused")
    url = f"sqlite:///studies.db?password={SECRET}"  # which SQLite does not mind
    output = app(
        *("-m", "hydra/sweeper=optuna", "x=interval(-3,3)", "hydra.sweeper.direction=minimize", "accidents=false"),
        *("hydra.sweeper.n_trials=1", f"hydra.sweeper.storage='{url}'", "hydra.sweep.dir=out"),
        "+executor@hydra.sweeper.executor=inline",
    )
    assert SECRET not in output
    assert (tmp_path / "out/multirun.yaml").is_file()
    assert "password=***" in (tmp_path / "out/0/.hydra/hydra.yaml").read_text()
    check_nowhere(tmp_path)
