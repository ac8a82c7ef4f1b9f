"""Logs of TensorBoard, read back by its own reader."""

import importlib.util
import json
import logging
import math
import resource
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.tuner.command_line import SMALL, SMALL_AGENTS, CommandLine, tuner
from tests.wandb_offline import without_account
from tuner.errors import UserError
from tuner.trackers.base import RunInfo, Table
from tuner.trackers.tensorboard import EVENT_FILES, TensorBoardTracker

__all__ = ["tuner"]


@pytest.fixture(autouse=True)
def reader_without_tensorflow(monkeypatch: pytest.MonkeyPatch) -> None:
    """TensorBoard's reader imports TensorFlow where it is installed, unless there is a module of this name."""
    monkeypatch.setitem(sys.modules, "tensorboard.compat.notf", ModuleType("notf"))


def read(folder: Path) -> Any:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    found = EventAccumulator(str(folder))
    found.Reload()
    return found


def points(folder: Path, name: str) -> list[tuple[int, float]]:
    return [(event.step, event.value) for event in read(folder).Scalars(name)]


def info(folder: Path, **config: Any) -> RunInfo:
    return RunInfo("screen/7", "study", config, folder)


def test_scalars_by_environment_step(tmp_path: Path) -> None:
    tracker = TensorBoardTracker()
    run = tracker.start_run(info(tmp_path / "new"))
    run.log(128, {"train/loss": 0.5, "train/learning_rate:0": 0.25})
    run.log(128, {"eval/mean_return": 3})
    assert points(tmp_path / "new", "train/loss") == [(128, 0.5)]  # on the disk at once
    run.log(256, {"train/loss": math.nan})
    run.log(200, {"train/loss": 9.0})  # a trial that went back to its checkpoint
    run.log(384, {"train/loss": 0.125})
    tracker.close()
    run.log(512, {"train/loss": 1.0})
    found = points(tmp_path / "new", "train/loss")
    assert [step for step, _ in found] == [128, 256, 384]
    assert math.isnan(found[1][1])
    assert points(tmp_path / "new", "eval/mean_return") == [(128, 3.0)]
    assert points(tmp_path / "new", "train/learning_rate:0") == [(128, 0.25)]


def test_what_a_later_session_passes_again_takes_the_place_of_what_was(tmp_path: Path) -> None:
    for steps, value in (((100, 200, 300), 1.0), ((200, 300, 400), 2.0)):
        run = TensorBoardTracker().start_run(info(tmp_path))
        for step in steps:
            run.log(step, {"train/loss": value, "eval/mean_return": value})
        run.finish()
    assert points(tmp_path, "train/loss") == [(100, 1.0), (200, 2.0), (300, 2.0), (400, 2.0)]
    assert len(list(tmp_path.glob(EVENT_FILES))) == 2


def test_hyperparameters_and_what_the_run_came_to(tmp_path: Path) -> None:
    from tensorboard.plugins.hparams.plugin_data_pb2 import HParamsPluginData

    run = TensorBoardTracker().start_run(info(tmp_path, agent={"gamma": 0.99, "clip": None, "sizes": [8, 8]}, seed=3))
    run.log(10, {"train/loss": 1.0})
    table = Table(("trial", "score"), ((1, 2.5), ("a|b", None)))
    run.finish(1, {"value": 0.75, "outcome": "crashed", "reason": None, "trials": table})
    found = read(tmp_path)

    def plugin_data(tag: str) -> Any:
        return HParamsPluginData.FromString(found.SummaryMetadata(tag).plugin_data.content)

    start = plugin_data("_hparams_/session_start_info").session_start_info
    assert start.group_name == "screen/7"
    assert {name: value.number_value or value.string_value for name, value in start.hparams.items()} == {
        "agent.gamma": 0.99,
        "agent.sizes": "[8, 8]",
        "seed": 3.0,
    }
    assert plugin_data("_hparams_/session_end_info").session_end_info.status == 2  # failed
    assert points(tmp_path, "final/value") == [(10, 0.75)]
    texts = {
        tag: found.Tensors(tag)[0].tensor_proto.string_val[0].decode() for tag in ("final/outcome", "final/trials")
    }
    assert texts["final/outcome"] == "crashed"
    assert texts["final/trials"].splitlines() == ["| trial | score |", "| --- | --- |", "| 1 | 2.5 |", r"| a\|b |  |"]


def test_a_disk_that_refuses_is_one_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    run = TensorBoardTracker().start_run(info(tmp_path))
    run.log(1, {"a": 1.0})
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, limits[1]))
    try:
        run.log(2, {"a": 1.0})
        run.log(3, {"a": 1.0})
        run.finish()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    (record,) = caplog.records
    assert "File too large" in record.message
    assert points(tmp_path, "a") == [(1, 1.0)]


def test_without_the_package_it_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(UserError, match=r"pip install 'note-rl\[tensorboard\]'"):
        TensorBoardTracker()


def test_it_does_not_import_a_framework(tmp_path: Path) -> None:
    import subprocess

    script = """
import sys
from pathlib import Path
from tuner.trackers.base import RunInfo
from tuner.trackers.tensorboard import TensorBoardTracker
run = TensorBoardTracker().start_run(RunInfo("a", "b", {"seed": 1}, Path(sys.argv[1])))
run.log(1, {"x": 1.0})
run.finish(0, {"outcome": "complete"})
print(sorted({"torch", "tensorflow"} & sys.modules.keys()))
"""
    environment = {"PYTHONPATH": ":".join(sys.path), "PATH": ""}
    command = [sys.executable, "-c", script, str(tmp_path)]
    assert subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout == "[]\n"


def test_several_trackers_of_a_list(tuner: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same numbers for all; the list stands in a file of the user's own."""
    monkeypatch.setattr("tuner.runs.training.LOG_INTERVAL_S", 0.0)
    without_account(monkeypatch, tuner.folder)
    experiment = tuner.folder / "mine" / "experiment" / "both.yaml"
    experiment.parent.mkdir(parents=True)
    experiment.write_text("# @package _global_\ndefaults:\n  - override /tracker: [wandb, tensorboard]\n")
    small = (*SMALL[1:], *SMALL_AGENTS["ppo"], "training.max_grad_norm=0.5", "hydra.run.dir=run")
    answer = tuner("train", "--config-dir", "mine", *small, "experiment=both")
    assert answer.status == 0, answer.errors
    run = tuner.folder / "run"
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    for name in ("approx_kl", "clip_fraction", "entropy", "explained_variance", "gradient_norm", "learning_rate"):
        kept = {line["step"]: line[f"train/{name}"] for line in lines if f"train/{name}" in line}
        assert kept
        assert dict(points(run, f"train/{name}")) == pytest.approx(kept)
    assert list(run.glob("wandb/offline-run-*"))


def test_trials_stand_side_by_side(tuner: CommandLine) -> None:
    synthetic = ("agent=synthetic", "executor=inline", "storage=journal", "tracker=[tensorboard,jsonl]")
    size = ("study.num_trials=3", "study.num_race=2", "study.num_candidates=1", "study.num_test_seeds=1")
    answer = tuner("tune", *synthetic, *size, "study.name=s")
    assert answer.status == 0, answer.errors
    folder = tuner.folder / "studies" / "s"
    runs = {path.parent.relative_to(folder).as_posix() for path in folder.rglob(EVENT_FILES)}
    trials = {path.parent.relative_to(folder).as_posix() for path in folder.rglob("trial.json")}
    assert runs == {".", *trials}
    assert {"screen/0", "screen/1"} <= trials
    reports = [json.loads(line)["value"] for line in (folder / "screen/0/reports.jsonl").read_text().splitlines()]
    assert [value for _, value in points(folder / "screen/0", "report/value")] == pytest.approx(reports)


def test_a_list_for_each_job_of_a_multirun(tuner: CommandLine, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    small = (*SMALL[1:], *SMALL_AGENTS["dqn"], "hydra.sweep.dir=jobs")
    answer = tuner("train", "-m", *small, "tracker=[jsonl,tensorboard]", "seed=1,2")
    assert answer.status == 0, answer.errors
    assert len(list((tuner.folder / "jobs").rglob(EVENT_FILES))) == 2
