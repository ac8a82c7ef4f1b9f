"""Missing data of a run in a tracker are refilled from its folder."""

import json
from pathlib import Path
from typing import Any

import pytest
import wandb

from tests.tuner.command_line import CommandLine
from tests.tuner.commands.test_report import words
from tests.wandb_offline import read_runs, without_account
from tuner.runs.refill import ended_run
from tuner.trial.folder import read_reports


def test_a_trial_is_refilled_as_it_was_logged_while_it_ran(
    tuner: CommandLine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    without_account(monkeypatch, tmp_path)
    few = (
        "num_trials=2",
        "num_candidates=1",
        "num_race_seeds=0",
        "num_select_seeds=1",
        "num_test_seeds=1",
        "name=mine",
    )
    settings = [f"study.{setting}" for setting in few]
    answer = tuner("tune", "agent=synthetic", "executor=inline", "tracker=wandb", *settings)
    assert answer.status == 0, answer
    wandb.teardown()
    live = {run.name: run for run in read_runs(tuner.folder / "studies/mine", "offline-run-*/*.wandb")}
    trial = tuner.folder / "studies/mine/screen/1"
    answer = tuner("report", "refill=studies/mine/screen/1")
    assert answer.status == 0, answer
    assert "its score" not in answer.output
    wandb.teardown()
    (sent,) = read_runs(trial, "offline-run-*/*.wandb")
    told = live["screen/1"]
    assert (sent.name, sent.group, sent.job_type) == ("screen/1", "mine", "screen")
    assert (sent.tags, sent.exit_code, sent.config) == (told.tags, told.exit_code, told.config)
    assert {"outcome", "reason", "value", "final", "auc", "best_return"} <= own(sent.summary).keys()
    assert own(sent.summary) == own(told.summary)
    assert [own(row) for row in sent.history] == [own(row) for row in told.history]
    assert len(sent.history) == len(read_reports(trial)) == 9

    (tuner.folder / "studies.db").unlink()
    answer = tuner("report", "refill=studies/mine/screen/1", "tracker.wandb.mode=disabled")
    assert "its score is missing: sqlite:///studies.db does not have it" in words(answer.output)
    alone = ended_run(trial)
    assert (alone.info.name, alone.info.group, alone.info.job_type, alone.exit_code) == (
        "screen/1",
        "mine",
        "screen",
        0,
    )
    assert alone.summary == {name: told.summary[name] for name in ("outcome", "reason", "best_return")}


def own(values: dict[str, Any]) -> dict[str, Any]:
    """Without what W&B adds of the clock."""
    return {name: value for name, value in values.items() if not name.startswith("_") or name == "_step"}


def test_a_run_that_w_and_b_does_not_have_is_refilled(
    tuner: CommandLine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    without_account(monkeypatch, tmp_path)
    run = tuner.folder / "runs" / "mine"
    run.mkdir(parents=True)
    (run / "config.yaml").write_text("seed: 3\nagent: {gamma: 0.9}\n")
    (run / "metrics.jsonl").write_text("".join(f'{{"step": {step}, "loss": {step / 4}}}\n' for step in (0, 8, 16)))
    summary = {"name": "mine", "group": "DQN", "job_type": "train", "exit_code": 0, "summary": {"final_return": 9.5}}
    (run / "summary.json").write_text(json.dumps(summary))
    (tuner.folder / "runs" / "bare").mkdir()
    (tuner.folder / "runs" / "bare" / "config.yaml").write_text("seed: 3\n")
    (run / "wandb_run_id").write_text("lackrows")
    answer = tuner("report", "refill=runs/mine")
    assert answer.status == 0, answer
    assert "3 rows of " in words(answer.output)
    wandb.teardown()
    (sent,) = read_runs(run, "offline-run-*/*.wandb")
    assert (sent.name, sent.group, sent.job_type, sent.exit_code) == ("mine", "DQN", "train", 0)
    assert sent.id not in ("", "lackrows")
    assert sent.config == {"seed": 3, "agent": {"gamma": 0.9}}
    assert [(row["_step"], row["loss"]) for row in sent.history] == [(0, 0), (8, 2), (16, 4)]
    assert sent.summary["final_return"] == 9.5
    assert "is not the folder of a run" in tuner.refused("report", "refill=runs/none")
    assert "nothing to refill from" in tuner.refused("report", "refill=runs/bare")
    assert "do not choose another tracker" in tuner.refused("report", "refill=runs/mine", "tracker=jsonl")
