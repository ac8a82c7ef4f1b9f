"""Files of studies that Optuna's dashboard shows: noted once, renewed, found in the folder of their study."""

import contextlib
import io
import json
import subprocess
import sys
import urllib.request
from pathlib import Path
from threading import Thread
from types import SimpleNamespace
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, make_server

import optuna
import pytest
from optuna.artifacts.exceptions import ArtifactNotFound

from tests.tuner.command_line import SMALL, SMALL_AGENTS, SMALL_STUDY, CommandLine
from tuner.cli import main
from tuner.features.artifacts import winner_artifacts
from tuner.features.artifacts.study_files import FOLDER, StudyFiles, keep
from tuner.study.optuna_internals import artifacts_of


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """The arguments of each start of the dashboard's server, which is not started."""
    calls: list[dict[str, Any]] = []
    monkeypatch.setattr(
        "optuna_dashboard.run_server", lambda storage, **given: calls.append({"storage": storage, **given})
    )
    return calls


def test_a_file_is_noted_once_and_renewed(tmp_path: Path) -> None:
    study, page = optuna.create_study(), tmp_path / "report.html"
    page.write_text("first")
    for _ in range(2):
        keep(study, tmp_path, page)
    (number,) = artifacts_of(study).values()
    copy = tmp_path / FOLDER / number
    assert copy.read_text() == "first"
    page.write_text("second")
    keep(study, tmp_path, page)
    assert artifacts_of(study) == {"report.html": number}
    assert copy.read_text() == "second"
    copy.unlink()
    keep(study, tmp_path, page)
    assert copy.read_text() == "second"


def test_one_store_reads_the_folders_of_all_studies(tmp_path: Path) -> None:
    study = optuna.create_study()
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / f"{name}.gif").write_text(name)
        keep(study, tmp_path / name, tmp_path / name / f"{name}.gif")
    files, known = StudyFiles([tmp_path / "a", tmp_path / "b"]), artifacts_of(study)
    with files.open_reader(known["b.gif"]) as reader:
        assert reader.read() == b"b"
    files.remove(known["b.gif"])
    for refused in (files.open_reader, files.remove):
        with pytest.raises(ArtifactNotFound):
            refused(known["b.gif"])
    files.write("added", io.BytesIO(b"by hand"))
    assert (tmp_path / "a" / FOLDER / "added").read_bytes() == b"by hand"


def _in_this_process(words: list[str], **how: Any) -> "subprocess.CompletedProcess[str]":
    """`tuner ...`: a process of its own imports a framework once more."""
    assert words[:3] == [sys.executable, "-m", "tuner"]
    assert how["capture_output"]
    assert how["timeout"] > 0
    with contextlib.redirect_stdout(io.StringIO()) as said:
        return subprocess.CompletedProcess(words, main(words[3:]), said.getvalue(), "")


def test_the_dashboard_serves_page_and_film_of_a_winner(
    tuner: CommandLine, served: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    processes = SimpleNamespace(run=_in_this_process, TimeoutExpired=subprocess.TimeoutExpired)
    monkeypatch.setattr(winner_artifacts, "subprocess", processes)
    assert tuner("tune", *SMALL_AGENTS["dqn"], *SMALL, *SMALL_STUDY, "study.name=s").status == 0
    assert tuner("dashboard", "storage=journal").status == 0
    assert served.pop()["artifact_store"] is None
    assert not (tuner.folder / "studies" / "s" / FOLDER).exists()
    answer = tuner("dashboard", "storage=journal", "artifacts=true")
    assert answer.status == 0, answer
    assert "filming the winner of s" in answer.output
    call = served.pop()
    from optuna_dashboard import wsgi

    found = artifacts_of(optuna.load_study(study_name="s", storage=call["storage"]))
    assert found.keys() == {"report.html", "play.gif"}
    with make_server("127.0.0.1", 0, wsgi(call["storage"], call["artifact_store"]), handler_class=_Silent) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{server.server_port}"
        with urllib.request.urlopen(f"{address}/api/studies") as answered:
            (number,) = [one["study_id"] for one in json.load(answered)["study_summaries"] if one["study_name"] == "s"]
        with urllib.request.urlopen(f"{address}/artifacts/{number}/{found['play.gif']}") as answered:
            assert (answered.headers["Content-Type"], answered.read(6)) == ("image/gif", b"GIF89a")
        server.shutdown()
    assert "filming" not in tuner("dashboard", "storage=journal", "artifacts=true").output


def test_a_study_without_an_agent_has_its_page_only(tuner: CommandLine, served: list[dict[str, Any]]) -> None:
    small = ("executor=inline", "study.num_trials=2", "study.num_test_seeds=1", "storage=journal", "study.name=s")
    assert tuner("tune", "agent=synthetic", *small).status == 0
    assert tuner("dashboard", "storage=journal", "artifacts=true").status == 0
    assert artifacts_of(optuna.load_study(study_name="s", storage=served.pop()["storage"])).keys() == {"report.html"}


SMALL_FUNCTION = (
    *("agent=synthetic", "executor=inline", "study.num_trials=2", "study.num_test_seeds=1", "storage=journal"),
    "tracker=jsonl",
)


def test_one_bad_study_is_named_and_the_others_are_shown(
    tuner: CommandLine, served: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, more in (("far", "study.folder=elsewhere"), ("gone", "seed=1"), ("odd", "seed=2")):
        assert tuner("tune", *SMALL_FUNCTION, f"study.name={name}", more).status == 0
    (tuner.folder / "studies" / "gone").rename(tuner.folder / "moved")
    summarise = winner_artifacts.summarise

    def failing(store: Any, name: str, home: Path, **more: Any) -> Any:
        if name == "odd":
            raise KeyError("definition")
        return summarise(store, name, home, **more)

    monkeypatch.setattr(winner_artifacts, "summarise", failing)
    answer = tuner("dashboard", "storage=journal", "artifacts=true")
    assert answer.status == 0, answer
    assert "odd has no artifacts: 'definition'" in answer.output
    assert "gone has no artifacts: its folder studies/gone is not there; name the one that" in answer.output
    storage = served.pop()["storage"]
    assert artifacts_of(optuna.load_study(study_name="far", storage=storage)).keys() == {"report.html"}
    assert len(list((tuner.folder / "elsewhere" / "far" / FOLDER).iterdir())) == 1


class _Silent(WSGIRequestHandler):
    """Logs nothing."""

    def log_message(self, *given: Any) -> None:
        """Nothing."""
