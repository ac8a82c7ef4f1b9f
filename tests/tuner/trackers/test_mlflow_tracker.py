"""MLflow's own client reads back what was tracked; everything stays in a folder."""

import json
import socket
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from mlflow import MlflowClient

from tests.tuner.command_line import CommandLine, tuner
from tuner.config.trust import foreign_code
from tuner.errors import UserError
from tuner.testing import TrackerContract
from tuner.trackers.base import RunInfo, Table
from tuner.trackers.mlflow import RUN_ID_FILE, STORE, MlflowTracker

__all__ = ["tuner"]


def client_of(folder: Path) -> MlflowClient:
    return MlflowClient(tracking_uri=(folder / STORE).as_uri())


def run_of(folder: Path, store: Path) -> Any:
    return client_of(store).get_run((folder / RUN_ID_FILE).read_text().strip())


class TestContract(TrackerContract):
    close_s = 60.0  # nothing is sent, so it waits until MLflow is imported

    def make(self) -> MlflowTracker:
        return MlflowTracker()

    def recorded(self, info: RunInfo) -> Mapping[int, Mapping[str, float]]:
        assert info.group_folder is not None
        client, run = client_of(info.group_folder), run_of(info.folder, info.group_folder)
        found: dict[int, dict[str, float]] = defaultdict(dict)
        for name in run.data.metrics:
            for point in client.get_metric_history(run.info.run_id, name):
                if not name.startswith("final/"):
                    found[point.step][name] = point.value
        return found


def test_a_run_has_its_settings_and_its_final_values(tmp_path: Path) -> None:
    tracker = MlflowTracker(experiment="mine")
    config = {"agent": {"gamma": 0.99, "clip": None, "sizes": [8, 8]}, "seed": 3}
    run = tracker.start_run(RunInfo("screen/7", "study", config, tmp_path, ("paper",), "screen"))
    run.log(10, {"train/loss": 1.0})
    table = Table(("trial", "score"), ((1, 2.5), ("b", None)))
    run.finish(1, {"value": 0.75, "outcome": "crashed", "reason": None, "trials": table})
    tracker.close()
    found = run_of(tmp_path, tmp_path)
    assert client_of(tmp_path).get_experiment(found.info.experiment_id).name == "mine"
    assert (found.info.run_name, found.info.status) == ("screen/7", "FAILED")
    assert found.data.params == {"agent.gamma": "0.99", "agent.sizes": "[8, 8]", "seed": "3"}
    assert found.data.metrics == {"train/loss": 1.0, "final/value": 0.75}
    tags = {"group": "study", "job_type": "screen", "paper": "true", "final/outcome": "crashed"}
    assert tags.items() <= found.data.tags.items()
    (file,) = (tmp_path / STORE).rglob("trials.json")
    assert json.loads(file.read_text()) == {"columns": ["trial", "score"], "data": [[1, 2.5], ["b", None]]}


def test_a_store_that_refuses_is_one_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    tracker = MlflowTracker(uri=(tmp_path / "file" / STORE).as_uri())
    (tmp_path / "file").touch()
    run = tracker.start_run(RunInfo("run", "study", {}, tmp_path / "run"))
    for step in (1, 2):
        run.log(step, {"a": 1.0})
    run.finish()
    tracker.close()
    (message,) = (record.message for record in caplog.records if record.name == "tuner.trackers.mlflow")
    assert message.startswith("MLflow is off, training goes on: ")


def test_a_server_that_is_away_is_one_warning_at_the_end(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """MLflow tries again for minutes, longer than a command waits at its end."""
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")  # its thread is not to outlive the test
    with socket.create_server(("127.0.0.1", 0)) as server:  # takes connections and answers nothing
        tracker = MlflowTracker(uri=f"http://127.0.0.1:{server.getsockname()[1]}")
        run = tracker.start_run(RunInfo("run", "study", {}, tmp_path / "run"))
        run.log(1, {"a": 1.0})
        run.finish()
        tracker.close(timeout_s=0.2)
        tracker.close(timeout_s=0.2)
    (message,) = (record.message for record in caplog.records if record.name == "tuner.trackers.mlflow")
    assert message == "MLflow is off, it has not taken everything in time; metrics.jsonl of each run has all of it"


def test_names_that_mlflow_does_not_take_are_fitted(tmp_path: Path) -> None:
    tracker = MlflowTracker()
    config = {"env": {"kwargs": {"a(b)": 1, "x//y": 2, "long": {"n" * 300: 3}}}, "..": 4}
    run = tracker.start_run(RunInfo("run", "study", config, tmp_path, ("lr=1e-3", "/")))
    run.log(1, {"loss[0]": 1.0})
    run.finish(0, {"value": 2.0})
    tracker.close()
    found = run_of(tmp_path, tmp_path)
    long = f"env.kwargs.long.{'n' * 300}"[:250]
    assert found.data.params == {"env.kwargs.a_b_": "1", "env_kwargs_x__y": "2", long: "3", "__": "4"}
    assert found.data.metrics == {"loss_0_": 1.0, "final/value": 2.0}
    assert {"lr_1e-3": "true", "_": "true"}.items() <= found.data.tags.items()


def test_the_trials_of_a_study_stand_side_by_side(tuner: CommandLine) -> None:
    size = ("study.num_trials=2", "study.num_race_seeds=0", "study.num_candidates=1", "study.num_test_seeds=1")
    answer = tuner("tune", "agent=synthetic", "executor=inline", "tracker=mlflow", *size, "study.name=s")
    assert answer.status == 0, answer.errors
    study = tuner.folder / "studies" / "s"
    client = client_of(study)
    found = client.get_experiment_by_name("s")
    assert found is not None
    names = {run.info.run_name.partition(" (")[0] for run in client.search_runs([found.experiment_id])}
    assert {trial.parent.relative_to(study).as_posix() for trial in study.rglob("trial.json")} <= names
    reports = [json.loads(line)["value"] for line in (study / "screen/0/reports.jsonl").read_text().splitlines()]
    run = run_of(study / "screen/0", study)
    assert [one.value for one in client.get_metric_history(run.info.run_id, "report/value")] == pytest.approx(reports)


def test_the_folder_of_somebody_else_sends_nowhere_without_a_question() -> None:
    node = {"_target_": "tuner.trackers.mlflow.MlflowTracker", "uri": None, "experiment": None}
    assert list(foreign_code({"tracker": {"mlflow": node}})) == []
    (found,) = foreign_code({"tracker": {"mlflow": {**node, "uri": "http://elsewhere"}}})
    assert str(found) == "tracker.mlflow.uri=http://elsewhere"


def test_without_the_package_it_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tuner.trackers.mlflow.find_spec", lambda name: None)
    with pytest.raises(UserError, match=r"pip install 'note-rl\[mlflow\]'"):
        MlflowTracker()
