"""A function goes on from its last checkpoint: after a stop, after kill -9 of its trial, by `resume=`."""

import json
import os
import signal
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import tuner
from tests.documents import FILES
from tests.tuner.runs.reporters import Reporter
from tuner.errors import UserError
from tuner.executors.base import TrialEnded, TrialReported, TrialStarted
from tuner.executors.local import LocalExecutor
from tuner.runs.functions import run_function
from tuner.trial.messages import Outcome, TrialInterrupted, TrialSpec

COUNTING = """
import os, signal
from pathlib import Path
import numpy as np
import tuner

def train(lr=1.0, die_at=0, seed=0):
    state = tuner.resume() or {"epoch": 0, "sum": np.zeros(1), "lives": 0}
    state["lives"] += 1
    for epoch in range(state["epoch"] + 1, 11):
        state = {**state, "epoch": epoch, "sum": state["sum"] + lr * epoch}
        with open(LOG, "a") as file:
            print(epoch, state["lives"], file=file)
        if epoch == die_at and state["lives"] == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        tuner.report(epoch / 10, float(state["sum"][0]), checkpoint=state, lives=state["lives"])
"""
WHOLE = [(epoch / 10, epoch * (epoch + 1) / 2) for epoch in range(1, 11)]


@pytest.fixture
def counting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder with the module `counting`, in which its log comes to be."""
    (tmp_path / "counting.py").write_text(f"LOG = {str(tmp_path / 'log')!r}\n{COUNTING}")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "counting", raising=False)
    return tmp_path


def config(**arguments: Any) -> dict[str, Any]:
    return {"agent": {"_target_": "counting.train", **arguments}, "training": {"total_steps": 100}}


@pytest.mark.parametrize("kill_at", [0.3, 1.0, None])
def test_a_killed_trial_loses_at_most_one_interval_and_doubles_nothing(counting: Path, kill_at: float | None) -> None:
    """Killed between a report and its answer, or in the middle of the work for the fourth report."""
    folder, reports, ends = counting / "trial", [], []
    described = config(die_at=4 if kill_at is None else 0)
    with LocalExecutor() as executor:
        for attempt in range(2):
            executor.start(TrialSpec("study", "screen", 0, 0, described, "tuner.runs.functions:run_trial"), folder)
            pid, over = 0, False
            while not over:
                for event in executor.wait(60.0):
                    if isinstance(event, TrialStarted):
                        pid = event.pid
                    elif isinstance(event, TrialEnded):
                        ends.append(event.result.outcome)
                        over = True
                    elif isinstance(event, TrialReported) and attempt == 0 and event.step == kill_at:
                        os.kill(pid, signal.SIGKILL)
                    elif isinstance(event, TrialReported):
                        reports.append((event.step, event.value))
                        executor.answer(event.key, "continue")
    assert ends == [Outcome.CRASHED, Outcome.COMPLETE]
    assert list(dict.fromkeys(reports)) == WHOLE  # the last one comes again: the answer may be lost
    epochs = [int(line.split()[0]) for line in (counting / "log").read_text().splitlines()]
    again = [4] if kill_at is None else []  # what was saved with a report is not done again
    assert epochs == sorted([*range(1, 11), *again])
    rows = [json.loads(line)["report/step"] for line in (folder / "metrics.jsonl").read_text().splitlines()]
    assert rows == [step for step, _ in WHOLE]


def test_train_resume_goes_on_from_the_last_checkpoint(counting: Path) -> None:
    typed = ["agent=function", "agent._target_=counting.train", "tracker=jsonl", "training.total_steps=100"]
    module = __import__("counting")
    stop, whole = module.tuner.report, module.tuner.report

    def stopping(step: float, value: float, **more: Any) -> bool:
        if step > 0.5:
            raise KeyboardInterrupt
        return bool(stop(step, value, **more))

    module.tuner = ModuleType("tuner")
    module.tuner.resume, module.tuner.report = tuner.resume, stopping
    with pytest.raises(KeyboardInterrupt, match="continue with: tuner train resume="):
        tuner.train(typed, folder=counting / "run")
    module.tuner.report = whole
    outcome = tuner.train([f"resume={counting / 'run'}"])
    assert [(point.fraction, point.mean_return) for point in outcome.evaluations] == WHOLE
    rows = [json.loads(line) for line in (counting / "run" / "metrics.jsonl").read_text().splitlines()]
    assert [row["lives"] for row in rows if "lives" in row] == [1] * 5 + [2] * 5
    assert [row["report/step"] for row in rows if "report/value" in row] == [step for step, _ in WHOLE]


def test_the_program_of_the_guide_goes_on_exactly(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch")
    module = ModuleType("my_training")
    exec(FILES["my_training.py"], vars(module))
    monkeypatch.setitem(sys.modules, "my_training", module)
    described = {"agent": {"_target_": "my_training.train", "lr": 0.02}, "seed": 1, "training": {"total_steps": 20}}
    whole = Reporter()
    run_function(described, tmp_path / "whole", whole)
    assert whole.reported[-1][1] > -0.02, "it learns the sine"
    parts = Reporter(stop_at=0.3)  # asked to stop behind a checkpoint
    with pytest.raises(TrialInterrupted):
        run_function(described, tmp_path / "parts", parts)
    assert len(parts.reported) < 20
    parts.stop_at = 2.0
    run_function(described, tmp_path / "parts", parts)
    assert parts.reported == whole.reported
    module.train()  # without a study


LONGER = """
import numpy as np
import tuner

def train(total_steps, seed=0):
    state = tuner.resume() or {"step": 0, "sum": np.zeros(1)}
    for step in range(state["step"] + 10, total_steps + 1, 10):
        state = {"step": step, "sum": state["sum"] + step}
        tuner.report(step / total_steps, float(state["sum"][0]), checkpoint=state, measured=step)
"""


def test_a_run_that_is_complete_goes_on_with_more_steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "longer.py").write_text(LONGER)
    monkeypatch.syspath_prepend(tmp_path)
    run = tmp_path / "run"
    typed = ["agent=function", "agent._target_=longer.train", "tracker=jsonl", "training.total_steps=30"]
    tuner.train([*typed, "+agent.total_steps=${training.total_steps}"], folder=run)
    outcome = tuner.train([f"resume={run}", "training.total_steps=60"])
    expected = [(step / 60, sum(range(10, step + 1, 10))) for step in range(10, 61, 10)]
    assert [(point.fraction, point.mean_return) for point in outcome.evaluations] == [
        (pytest.approx(step), value) for step, value in expected
    ]
    assert [point.num_env_steps for point in outcome.evaluations] == [10, 20, 30, 40, 50, 60]
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    assert [row["measured"] for row in rows if "measured" in row] == [10, 20, 30, 40, 50, 60]
    with pytest.raises(UserError, match=r"training.total_steps=50: .* has reported 60 steps already; take more"):
        tuner.train([f"resume={run}", "training.total_steps=50"])


def test_a_change_that_a_function_would_not_get_is_refused(counting: Path) -> None:
    run = counting / "run"
    tuner.train(["agent=function", "agent._target_=counting.train", "training.total_steps=100"], folder=run)
    for typed in ("training.total_steps=200", "evaluation.num_episodes=3"):
        with pytest.raises(UserError, match=f"{typed} would change nothing: train was not given the 10+ of this run"):
            tuner.train([f"resume={run}", typed])
    assert len((run / "reports.jsonl").read_text().splitlines()) == 10
