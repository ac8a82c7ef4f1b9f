"""Calls of trackers for the runs of a study."""

import os
import signal
from pathlib import Path

import pytest

from tests.tuner.fake_trackers import FakeRun, FakeTracker, accidents
from tests.tuner.studies import FakeExecutor, learn, run_study
from tuner.executors.base import Event, TrialReported, TrialStarted
from tuner.study import StudyStopped
from tuner.study.watching.trial_tracking import TrackingListener
from tuner.trial.messages import TrialSpec


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
