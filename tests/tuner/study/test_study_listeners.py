"""What is told to trackers and shown in the terminal while a study runs."""

import io
import os
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from optuna.samplers import GridSampler
from rich.console import Console

from tests.tuner.studies import SPACE, ControllerDied, FakeExecutor, Script, definition, journal, learn, run_study
from tuner.executors.base import Event, TrialReported, TrialStarted
from tuner.reporting.terminal import LiveTable
from tuner.results.features import all_stages
from tuner.results.summary_json import summary_from_json, summary_to_json
from tuner.study import StudyListener, StudyRunner, StudyStopped, StudyStore
from tuner.study.watching.display import LiveDisplay, study_display
from tuner.study.watching.study_listener import Listeners
from tuner.study.watching.trial_tracking import TrackingListener
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


class Unannounced(FakeExecutor):
    """Does not say when it starts a trial, as an executor of a user's own may not."""

    def wait(self, timeout_s: float | None = None) -> list[Event]:
        return [event for event in super().wait(timeout_s) if not isinstance(event, TrialStarted)]


def test_a_run_is_opened_by_the_first_that_is_heard_of_it(tmp_path: Path) -> None:
    tracker = FakeTracker()
    run_study(tmp_path, Unannounced(), listener=TrackingListener(tracker, "study", 900, tmp_path / "study"))
    assert len(tracker.runs) == 6 + 4 + 4
    assert all(run.rows and len(run.ends) == 1 for run in tracker.runs)


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


def shown(folder: Path, executor: FakeExecutor, **changes: Any) -> str:
    console = Console(file=io.StringIO(), width=120)
    with study_display(console, definition(folder, **changes), parallel=2) as display:
        run_study(folder, executor, listener=display, **changes)
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


def stages_of(text: str) -> list[str]:
    return [line.partition(":")[0] for line in text.splitlines() if line.partition(" ")[0] in all_stages()]


def three_good(spec: TrialSpec, attempt: int) -> Script:
    bad = spec.key in ("screen/0", "screen/2", "screen/4")
    return Script([], TrialResult(Outcome.CRASHED, "no")) if bad else learn(spec, attempt)


RACE_OF_FOUR: dict[str, Any] = {"num_race": 4, "num_race_seeds": 1, "num_candidates": 3}


def test_a_summary_knows_how_each_parameter_was_spread(tmp_path: Path) -> None:
    share = {"low": 0.125, "high": 1.0, "of": "buffer.train_freq"}
    space = {**SPACE, "buffer": {**SPACE["buffer"], "gradient_steps": share}}
    space["agent"] = {**SPACE["agent"], "kind": {"choices": ["plain", "wild"]}}
    summary = run_study(tmp_path, space=space, num_trials=1, num_candidates=1)
    assert summary.scales == {
        "agent.gamma": "one_minus",
        "agent.kind": "category",
        "buffer.batch_size": "log",
        "buffer.gradient_steps": "linear",
        "optimizer.learning_rate": "log",
    }
    assert summary_from_json(summary_to_json(summary)) == summary


def test_a_race_that_is_left_out_is_not_waited_for(tmp_path: Path) -> None:
    text = shown(tmp_path, FakeExecutor(2, three_good), **RACE_OF_FOUR)
    assert stages_of(text) == ["screen 0/6", "confirm 0/6", "test 0/4", "test 4/4"]
    first_of_test = next(line for line in text.splitlines() if line.startswith("test 0/4"))
    assert first_of_test.endswith("about 2 s left")  # 4 runs of 1 s, two at a time, and no race


def test_a_race_of_all_that_a_finite_search_has_is_not_planned(tmp_path: Path) -> None:
    def sampler(seed: int) -> GridSampler:
        return GridSampler({"agent.kind": ["plain", "wild"]}, seed=seed)

    told = Totals()
    space = {"agent": {"kind": {"choices": ["plain", "wild"]}}}
    about = definition(tmp_path, space=space, **RACE_OF_FOUR)
    console = Console(file=io.StringIO(), width=120)
    with LiveTable(console) as table, StudyStore(journal(tmp_path)) as store:
        display = LiveDisplay(table, about, parallel=1)
        StudyRunner(about, store, FakeExecutor(), sampler, listener=Listeners(told, display)).run()
    assert told.totals == [("screen", 2), ("race", 0), ("confirm", 4), ("test", 4)]
    assert isinstance(console.file, io.StringIO)
    assert stages_of(console.file.getvalue()) == ["screen 0/2", "confirm 0/4", "test 0/4", "test 4/4"]


class Totals(StudyListener):
    """Remembers the totals of the stages."""

    def __init__(self) -> None:
        self.totals: list[tuple[str, int]] = []

    def on_stage(self, stage: str, num_runs: int, records: object) -> None:
        self.totals.append((stage, num_runs))


def test_a_finished_study_has_nothing_left(tmp_path: Path) -> None:
    shown(tmp_path, FakeExecutor(2))
    lines = shown(tmp_path, FakeExecutor(2)).splitlines()
    assert [line.partition(":")[0] for line in lines] == ["screen 6/6", "confirm 4/4", "test 4/4"]
    assert not any("left" in line for line in lines)


def test_another_winner_comes_on_top(tmp_path: Path) -> None:
    first = run_study(tmp_path, num_trials=1, num_candidates=1)
    for num_trials in range(4, 40, 4):
        text = shown(tmp_path, FakeExecutor(2), num_trials=num_trials, num_candidates=1)
        if "test 6/6: 6 complete" in text:  # of the winner, the default and the former winner on 2 seeds
            return
        assert "test 4/4: 4 complete" in text
    raise AssertionError(f"{first.winner_label} is the winner of many")


def test_without_a_console_nothing_is_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with study_display(None, definition(tmp_path), parallel=2) as display:
        run_study(tmp_path, listener=display)
    assert capsys.readouterr() == ("", "")
