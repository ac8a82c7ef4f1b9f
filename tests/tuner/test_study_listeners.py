"""What is told to trackers and shown in the terminal while a study runs."""

import io
import os
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from tests.tuner.studies import ControllerDied, FakeExecutor, Script, definition, learn, run_study
from tuner.executors.base import TrialReported
from tuner.study import StudyStopped
from tuner.study.display import study_display
from tuner.study.tracking import TrackingListener
from tuner.trackers.base import RunInfo
from tuner.trial.messages import Outcome, TrialResult, TrialSpec


class FakeTracker:
    """Remembers what it was told."""

    def __init__(self) -> None:
        self.runs: list[FakeRun] = []

    def start_run(self, info: RunInfo) -> "FakeRun":
        self.runs.append(FakeRun(info))
        return self.runs[-1]

    def close(self, timeout_s: float = 10.0) -> None:
        pass


class FakeRun:
    def __init__(self, info: RunInfo) -> None:
        self.info = info
        self.rows: list[tuple[int, Mapping[str, float]]] = []
        self.ends: list[tuple[int, Mapping[str, Any]]] = []

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        assert not self.ends
        self.rows.append((step, metrics))

    def finish(self, exit_code: int = 0, summary: Mapping[str, Any] | None = None) -> None:
        self.ends.append((exit_code, summary or {}))


def accidents(spec: TrialSpec, attempt: int) -> Script:
    script = learn(spec, attempt)
    if spec.key == "screen/1":
        return Script(script.curve[:2], TrialResult(Outcome.CRASHED, "KeyError: 'obs'"))
    if spec.key == "screen/2" and attempt == 1:
        return Script(script.curve[:2], TrialResult(Outcome.CRASHED, "killed"))
    if spec.key == "screen/3":
        return Script(script.curve[:2], TrialResult(Outcome.DIVERGED, "the loss is nan"))
    return script


def test_every_run_is_opened_once_and_closed_with_what_came_of_it(tmp_path: Path) -> None:
    tracker = FakeTracker()
    run_study(
        tmp_path, FakeExecutor(2, accidents), listener=TrackingListener(tracker, "study", 900, tmp_path / "study")
    )
    runs = {run.info.name: run for run in tracker.runs}
    assert len(runs) == len(tracker.runs) == 6 + 4 + 4
    assert {(run.info.group, run.info.group_folder) for run in tracker.runs} == {("study", tmp_path / "study")}
    assert [run.info.job_type for run in tracker.runs] == ["screen"] * 6 + ["confirm"] * 4 + ["test"] * 4
    assert all(len(run.ends) == 1 for run in tracker.runs)
    assert [runs[f"screen/{number}"].ends[0][0] for number in range(6)] == [0, 1, 0, 1, 0, 0]
    _, summary = runs["screen/1"].ends[0]
    assert (summary["outcome"], summary["reason"], summary["value"]) == ("crashed", "KeyError: 'obs'", None)
    complete = runs["screen/0"].ends[0][1]
    assert complete["outcome"] == "complete"
    assert complete["value"] == 0.5 * complete["auc"] + 0.5 * complete["final"]
    for run in tracker.runs:
        steps = [step for step, _ in run.rows]
        assert steps == sorted(steps)
        assert run.info.config["seed"] >= 0
    assert [row["eval/mean_return"] for _, row in runs["screen/2"].rows if "eval/mean_return" in row] == [
        value for _, value in learn(_spec(runs["screen/2"]), 1).curve
    ]


def _spec(run: FakeRun) -> TrialSpec:
    return TrialSpec("study", "screen", 2, run.info.config["seed"], run.info.config)


def test_a_run_that_is_stopped_is_closed_and_opened_again_later(tmp_path: Path) -> None:
    tracker = FakeTracker()
    executor = FakeExecutor()
    interrupted = TrackingListener(tracker, "study", 900, tmp_path / "study")

    def interrupt(event: object) -> None:
        if isinstance(event, TrialReported) and event.key == "screen/2":
            executor.on_event = lambda event: None
            os.kill(os.getpid(), signal.SIGINT)

    executor.on_event = interrupt
    with pytest.raises(StudyStopped):
        run_study(tmp_path, executor, listener=interrupted)
    assert tracker.runs[-1].info.name == "screen/2"
    assert tracker.runs[-1].ends[0][0] == 1
    assert tracker.runs[-1].ends[0][1]["outcome"] == "stopped"
    again = FakeTracker()
    run_study(tmp_path, listener=TrackingListener(again, "study", 900, tmp_path / "study"))
    assert again.runs[0].info.name == "screen/2"
    assert again.runs[0].info.folder == tracker.runs[-1].info.folder
    assert again.runs[0].ends[0][0] == 0


def shown(folder: Path, executor: FakeExecutor) -> str:
    console = Console(file=io.StringIO(), width=120)
    with study_display(console, definition(folder), parallel=2) as display:
        run_study(folder, executor, listener=display)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_the_terminal_shows_stages_failures_and_the_best(tmp_path: Path) -> None:
    text = shown(tmp_path, FakeExecutor(2, accidents))
    assert "screen 0/6" in text
    assert "confirm 0/4" in text
    assert "test 4/4: 4 complete" in text
    assert "screen/1: crashed (KeyError: 'obs'); it goes on from its last checkpoint" in text
    assert "screen/1 crashed: KeyError: 'obs'" in text
    assert "screen/3 diverged: the loss is nan" in text
    assert "failed 2 (1 crashed and 1 diverged)" in text


def test_a_study_that_goes_on_shows_what_it_has(tmp_path: Path) -> None:
    with pytest.raises(ControllerDied):
        run_study(tmp_path, FakeExecutor(die_after=100))
    assert "screen 4/6: 4 complete" in shown(tmp_path, FakeExecutor(2))


def test_without_a_console_nothing_is_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with study_display(None, definition(tmp_path), parallel=2) as display:
        run_study(tmp_path, listener=display)
    assert capsys.readouterr() == ("", "")
