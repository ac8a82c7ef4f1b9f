"""Online mode, against a server of our own that speaks as much of W&B's protocol as a run needs."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.wandb_server import FakeServer, logged_in
from tuner.trackers.base import RunInfo
from tuner.trackers.wandb.tracker import WandbTracker


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[FakeServer]:
    with logged_in(monkeypatch, tmp_path) as server:
        yield server


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.message for record in caplog.records if record.name.startswith("tuner")]


def test_a_key_makes_runs_online(
    tmp_path: Path, server: FakeServer, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    tracker = WandbTracker(project="poles", server_timeout_s=30)
    info = RunInfo("screen/3", "my study", {"seed": 3}, tmp_path / "run", tags=("dqn",), job_type="screen")
    run = tracker.start_run(info)
    for step in (0, 10, 20):
        run.log(step, {"loss": step / 8})
    run.finish(1, {"outcome": "crashed"})
    tracker.close(60)

    ((run_id, sent),) = server.runs.items()
    assert (sent["displayName"], sent["groupName"], sent["jobType"]) == ("screen/3", "my study", "screen")
    assert (sent["project"], sent["tags"]) == ("poles", ["dqn"])
    assert json.loads(sent["config"])["seed"] == {"value": 3}
    rows = [(row["_step"], row["loss"]) for row in server.history[run_id]]
    assert rows == [(0, 0), (10, 1.25), (20, 2.5)]
    assert server.exit_codes[run_id] == 1
    assert not {"commit", "repo"} & sent.keys()  # nothing of the user's git repository
    assert warnings(caplog) == []
    assert capfd.readouterr() == ("", "")


def test_a_continued_run_is_the_same_run_on_the_server(tmp_path: Path, server: FakeServer) -> None:
    for step in (0, 10):
        tracker = WandbTracker(server_timeout_s=30)
        run = tracker.start_run(RunInfo("screen/3", "my study", {}, tmp_path / "run"))
        run.log(step, {"loss": 1.0})
        run.finish(0)
        tracker.close(60)
    (run_id,) = server.runs
    assert [row["_step"] for row in server.history[run_id]] == [0, 10]


@pytest.mark.parametrize(
    ("method", "path", "asked", "word"),
    [
        ("POST", "/graphql", {"query": "query Unheard($x: Int!) { unheard(x: $x) }", "variables": {"x": 1}}, "Unheard"),
        ("POST", "/graphql", {"query": "query Viewer($x: Int!) { viewer { id } }", "variables": {}}, "without x"),
        ("GET", "/files/me/poles/1/config.yaml", {}, "GET /files"),
    ],
)
def test_what_the_server_does_not_know_fails_the_test(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, method: str, path: str, asked: dict[str, Any], word: str
) -> None:
    def ask() -> None:
        with logged_in(monkeypatch, tmp_path) as server:
            status, answer = server.answer(method, path, json.dumps(asked).encode())
            assert (status, answer["data"], len(answer["errors"])) == (200 if method == "POST" else 404, None, 1)

    with pytest.raises(AssertionError, match=rf"W&B asked for what the server does not know:\n.*{word}"):
        ask()


def test_a_server_that_falls_silent_is_one_warning_and_does_not_hold_up_the_rest(
    tmp_path: Path, server: FakeServer, caplog: pytest.LogCaptureFixture
) -> None:
    server.silent.set()
    tracker = WandbTracker(server_timeout_s=1)
    for number in range(2):
        run = tracker.start_run(RunInfo(f"screen/{number}", "my study", {}, tmp_path / str(number)))
        run.log(0, {"loss": 1.0})
        run.finish(0)
    tracker.close(60)
    (warning,) = warnings(caplog)
    assert "W&B did not take all of screen/0 in time" in warning
    pattern = warning.partition("`wandb sync ")[2].partition("`")[0]
    assert len(list(Path("/").glob(pattern.lstrip("/") + "/*.wandb"))) == 1  # what to upload later is really there
