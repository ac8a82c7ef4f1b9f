"""Runs are brought to their ends: crashes are retried, reports are heard once, Ctrl-C leaves open what is open."""

import json
import os
import signal
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from optuna.trial import TrialState

from tests.tuner.studies import ControllerDied, FakeExecutor, Script, ending, learn, run_study
from tests.tuner.study_records import Notes, check_complete, stored
from tuner.executors.base import TrialEnded, TrialReported
from tuner.study import StudyStopped
from tuner.trial import folder as files
from tuner.trial.messages import Limits, Outcome, TrialResult, TrialSpec


def test_a_folder_that_holds_another_run_is_set_aside(tmp_path: Path) -> None:
    with pytest.raises(ControllerDied):
        run_study(tmp_path, executor := FakeExecutor(die_after=5))
    left = executor.started[-1]
    folder = tmp_path / "studies" / "study" / left.key
    files.prepare(folder, replace(left, seed=left.seed + 3))  # as if the storage were an older one than the folder
    files.write_result(folder, TrialResult(Outcome.COMPLETE, seconds=1.0))
    again = FakeExecutor()
    run_study(tmp_path, again)
    assert [spec.seed for spec in again.started if spec.key == left.key] == [left.seed]
    aside = [path for path in folder.parent.iterdir() if path.name not in map(str, range(6))]
    assert [files.read_trial(path).spec.seed for path in aside] == [left.seed + 3]


@pytest.mark.parametrize("outcome", [Outcome.CRASHED, Outcome.HUNG])
def test_a_crash_or_hang_is_continued_once_and_then_recorded_as_failed(tmp_path: Path, outcome: Outcome) -> None:
    executor = FakeExecutor(behave=ending(2, TrialResult(outcome, "KeyError: 'obs'", seconds=2.0)))
    summary = run_study(tmp_path, executor)
    run = summary.stage("screen")[2]
    assert (run.outcome, run.value, run.reason, run.seconds) == (outcome, None, "KeyError: 'obs'", 4.0)
    assert len([spec for spec in executor.started if spec.key == "screen/2"]) == 2
    trial = stored(tmp_path).trials[2]
    assert trial.state is TrialState.FAIL
    assert [attempt["reason"] for attempt in trial.user_attrs["attempts"]] == ["KeyError: 'obs'"] * 2


def test_a_run_that_crashed_once_goes_on_where_it_was(tmp_path: Path) -> None:
    def behave(spec: TrialSpec, attempt: int) -> Script:
        script = learn(spec, attempt)
        if spec.key == "screen/2" and attempt == 1:
            return Script(script.curve[:4], TrialResult(Outcome.CRASHED, "killed", seconds=2.0))
        return script

    reported: list[tuple[str, float]] = []
    executor = FakeExecutor(behave=behave)
    executor.on_event = lambda event: (
        reported.append((event.key, event.step)) if isinstance(event, TrialReported) else None
    )
    run = run_study(tmp_path, executor).stage("screen")[2]
    assert run.outcome is Outcome.COMPLETE
    assert run.seconds == 3.0
    assert len(run.curve) == 9
    assert Counter(reported)["screen/2", 4 / 9] == 1
    assert len([key for key, _ in reported if key == "screen/2"]) == 9


def test_a_report_that_was_written_but_not_heard_is_not_lost(tmp_path: Path) -> None:
    def behave(spec: TrialSpec, attempt: int) -> Script:
        script = learn(spec, attempt)
        if spec.key == "screen/2" and attempt == 1:
            return Script(script.curve[:4], TrialResult(Outcome.CRASHED, "killed", seconds=2.0))
        return script

    def write_one_more(event: Any) -> None:
        if isinstance(event, TrialEnded) and event.key == "screen/2" and event.result.outcome is Outcome.CRASHED:
            step, value = learn(executor.started[-1], 1).curve[4]
            reports = tmp_path / "studies" / "study" / "screen" / "2" / files.REPORTS_FILE
            with reports.open("a") as file:
                file.write(json.dumps({"step": step, "value": value}) + "\n")

    executor = FakeExecutor(behave=behave)
    executor.on_event = write_one_more
    run = run_study(tmp_path, executor).stage("screen")[2]
    assert run.curve == tuple(learn(executor.started[2], 1).curve)


def test_retries_can_be_had_and_not(tmp_path: Path) -> None:
    for retries in (0, 3):
        executor = FakeExecutor(behave=ending(0, TrialResult(Outcome.CRASHED, "no")))
        run_study(tmp_path / str(retries), executor, retries=retries)
        assert len([spec for spec in executor.started if spec.key == "screen/0"]) == 1 + retries


def test_a_mistake_that_would_be_made_again_is_not_tried_again(tmp_path: Path) -> None:
    executor = FakeExecutor(behave=ending(2, TrialResult(Outcome.CRASHED, "no score", deterministic=True)))
    run = run_study(tmp_path, executor, retries=3).stage("screen")[2]
    assert (run.outcome, run.value, run.reason) == (Outcome.CRASHED, None, "no score")
    assert len([spec for spec in executor.started if spec.key == "screen/2"]) == 1


def test_a_stop_from_outside_counts_as_a_crash(tmp_path: Path) -> None:
    executor = FakeExecutor(behave=ending(0, TrialResult(Outcome.STOPPED, "stopped by SIGTERM")))
    run = run_study(tmp_path, executor).stage("screen")[0]
    assert (run.outcome, run.reason) == (Outcome.CRASHED, "stopped by SIGTERM")


def test_ctrl_c_leaves_open_what_is_open_and_the_same_call_goes_on(tmp_path: Path) -> None:
    def interrupt(event: object) -> None:
        if isinstance(event, TrialReported) and (event.key, event.step) == ("screen/3", 5 / 9):
            os.kill(os.getpid(), signal.SIGINT)

    executor = FakeExecutor(parallel=2)
    executor.on_event = interrupt
    with pytest.raises(StudyStopped) as raised:
        run_study(tmp_path, executor)
    assert raised.value.num_open == 2
    study = stored(tmp_path)
    assert Counter(trial.state for trial in study.trials)[TrialState.RUNNING] == 2
    attempts = [trial.user_attrs["attempts"] for trial in study.trials if trial.state is TrialState.RUNNING]
    assert [[attempt["outcome"] for attempt in run] for run in attempts] == [["stopped"], ["stopped"]]
    again = FakeExecutor(parallel=2)
    summary = run_study(tmp_path, again)
    check_complete(summary)
    assert {spec.number for spec in again.started[:2]} == {2, 3}


@pytest.mark.parametrize(("limits", "takes"), [(Limits(grace_s=7.5), ", which takes up to 15 s"), (None, "")])
def test_ctrl_c_says_at_once_what_is_waited_for(tmp_path: Path, limits: Limits | None, takes: str) -> None:
    """Before any run has ended: those that do not answer are waited for."""
    notes, said_at_the_end = Notes(), []

    def interrupt(event: object) -> None:
        if isinstance(event, TrialReported) and (event.key, event.step) == ("screen/0", 5 / 9):
            os.kill(os.getpid(), signal.SIGINT)
        if isinstance(event, TrialEnded):
            said_at_the_end.append(list(notes.texts))

    executor = FakeExecutor(parallel=2)
    executor.limits = limits
    executor.on_event = interrupt
    with pytest.raises(StudyStopped):
        run_study(tmp_path, executor, listener=notes)
    assert said_at_the_end == [[f"stopping 2 runs{takes}; Ctrl-C again ends them now"]] * 2
