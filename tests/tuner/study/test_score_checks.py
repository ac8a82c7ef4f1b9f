"""A score that was changed in the storage is found by the curve beside it, a value by what was drawn."""

import json
import math
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import optuna
import pytest
from optuna.storages.journal import JournalFileBackend

from tests.tuner.studies import CONFIG, FakeExecutor, journal, run_study
from tuner.errors import UserError
from tuner.results.metric import make_metric, make_others
from tuner.results.records import RunRecord
from tuner.study import StudyStore, summarise
from tuner.study.score_checks import check_scores
from tuner.study.storage.trial_records import read_records
from tuner.study.storage.value_checks import _is_drawn
from tuner.trial.messages import JsonDict, Outcome

CURVE = ((0.5, 10.0), (1.0, 30.0))  # mixed: half its mean height, 20, and half its end, 30


def record(value: float, **changes: Any) -> RunRecord:
    return RunRecord(3, "test", "default", 7, {}, Outcome.COMPLETE, value, curve=CURVE, **changes)


def test_by_hand() -> None:
    mixed = make_metric("mixed")
    others = make_others(("final", "seconds"), "mixed")
    check_scores([record(25.0)], mixed, ())
    check_scores([record(25.0, scores={"final": 30.0, "seconds": 5.0})], mixed, others)
    with pytest.raises(UserError, match="holds 999 as the score of run test/3, and 25 comes of what is kept beside it"):
        check_scores([record(25.0), record(999.0)], mixed, ())
    with pytest.raises(UserError, match="holds 31 as the final of run test/3, and 30 comes of"):
        check_scores([record(25.0, scores={"final": 31.0, "seconds": 5.0})], mixed, others)
    with pytest.raises(UserError, match="holds nan as the score"):
        check_scores([record(math.nan)], mixed, ())


def test_storages_call_the_objective_what_it_is(tmp_path: Path) -> None:
    run_study(tmp_path, metric=("mixed", "final", "seconds"))
    with StudyStore(journal(tmp_path)) as store:
        for stage in ("screen", "test"):
            study = store.find("study", stage)
            assert study is not None
            assert study.metric_names == ["score", "final", "seconds"]
            assert "values_score" in study.trials_dataframe().columns


@pytest.mark.parametrize("metric", ["mixed", "seconds_to_0.5"])
def test_a_score_changed_in_the_storage_reaches_no_verdict(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, metric: str
) -> None:
    append = JournalFileBackend.append_logs

    def tampered(backend: JournalFileBackend, logs: list[dict[str, Any]]) -> None:
        ends = [log.get("values") and log["trial_id"] == 8 for log in logs]
        append(backend, [log | {"values": [999.0]} if end else log for log, end in zip(logs, ends, strict=True)])

    run_study(tmp_path / "sound", metric=metric)
    monkeypatch.setattr(JournalFileBackend, "append_logs", tampered)
    with pytest.raises(UserError, match="holds 999 as the score of run"):
        run_study(tmp_path, metric=metric)
    monkeypatch.undo()
    executor = FakeExecutor()
    with pytest.raises(UserError, match="holds 999 as the score of run"):  # nor does it begin again
        run_study(tmp_path, executor, metric=metric, num_test_seeds=3)
    assert executor.started == []
    with StudyStore(journal(tmp_path)) as store, pytest.raises(UserError, match="somebody has edited it"):
        summarise(store, "study", tmp_path)


def edited(folder: Path, stage: str, key: str, edit: Callable[[Any], object]) -> None:
    """Changes what stands under a key beside the first trial of a stage."""
    replaced(folder, stage, key, lambda value: {key: edit(value)})


def replaced(folder: Path, stage: str, key: str, others: Callable[[Any], JsonDict]) -> None:
    """Puts other attributes in the place of one of the first trial of a stage."""
    path = folder / "studies.journal"
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    studies = [line["study_name"] for line in lines if line["op_code"] == 0]
    trials = [line for line in lines if line["op_code"] == 4]
    number = [line["study_id"] for line in trials].index(studies.index(stage))
    later = [line["user_attr"] for line in lines if line.get("trial_id") == number and "user_attr" in line]
    (kept,) = [one for one in (trials[number].get("user_attrs", {}), *later) if key in one]
    kept.update(others(kept.pop(key)))
    apart = []  # a line holds one attribute
    for line in lines:
        several = line.get("user_attr")
        apart += [line] if several is None else [{**line, "user_attr": {name: one}} for name, one in several.items()]
    path.write_text("".join(json.dumps(line) + "\n" for line in apart))


@pytest.mark.parametrize(
    ("stage", "key", "edit", "said"),
    [
        ("study", "agent.gamma", lambda value: value - 1e-4, "agent.gamma is 0.99.*was drawn"),
        ("study", "buffer.batch_size", lambda value: 2 * value, "buffer.batch_size is 32, and 16 was drawn"),
        ("study", "optimizer.learning_rate", str, "optimizer.learning_rate is '.*was drawn"),
        ("study/test", "optimizer.learning_rate", lambda value: 2 * value, "optimizer.learning_rate is .*the run has"),
        (
            *("study/test", "run", lambda run: {**run, "values": {**run["values"], "agent.gamma": 0.5}}),
            r"agent.gamma is .*the run has 0\.5",
        ),
    ],
)
def test_a_value_changed_in_the_storage_is_shown_to_nobody(
    tmp_path: Path, stage: str, key: str, edit: Callable[[Any], object], said: str
) -> None:
    run_study(tmp_path)
    with StudyStore(journal(tmp_path)) as store:
        summarise(store, "study", tmp_path)
    edited(tmp_path, stage, key, edit)
    with StudyStore(journal(tmp_path)) as store, pytest.raises(UserError, match=f"changed by hand.*{said}"):
        summarise(store, "study", tmp_path)


@pytest.mark.parametrize(
    ("stage", "key", "others", "said"),
    [
        ("study", "agent.gamma", {}, "trial 0: agent.gamma is missing"),
        ("study", "outcome", {}, "trial 0: outcome is missing"),
        (
            "study",
            "outcome",
            {"outcome": "complete", "agent.kind": "other"},
            "agent.kind was added, and would be taken",
        ),
        ("study/test", "agent.gamma", {}, "trial 0: agent.gamma is missing"),
        ("study/test", "configuration", {"configuration": "a", "agent.kind": "b"}, "trial 0: agent.kind was added"),
    ],
)
def test_attributes_removed_or_added_are_noticed(
    tmp_path: Path, stage: str, key: str, others: JsonDict, said: str
) -> None:
    run_study(tmp_path)
    replaced(tmp_path, stage, key, lambda value: others)
    with StudyStore(journal(tmp_path)) as store, pytest.raises(UserError, match=f"changed by hand.*{said}"):
        summarise(store, "study", tmp_path)


FOLLOWING: JsonDict = {
    "buffer": {
        "train_freq": {"low": 2, "high": 8, "transform": "power_of_two"},
        "gradient_steps": {"low": 0.5, "high": 1.0, "of": "buffer.train_freq"},
        "batch_size": {"low": 128, "high": 256, "at_most": "buffer.size"},
    },
    "agent": {
        "kind": {"choices": ["plain", "double"]},
        "gamma": {"low": 0.9, "high": 0.99, "when": {"agent.kind": "double"}},
    },
}


def test_values_that_follow_others_are_compared_too(tmp_path: Path) -> None:
    """A batch has at most 100 transitions, and at least 128 are drawn; half of train_freq or more are steps."""
    config = {**CONFIG, "buffer": {**CONFIG["buffer"], "size": 100}}
    summary = run_study(tmp_path, space=FOLLOWING, config=config)
    assert {run.params["buffer.batch_size"] for run in summary.stage("screen")} == {100}
    assert len({run.params.get("agent.gamma") is None for run in summary.stage("screen")}) == 2
    with StudyStore(journal(tmp_path)) as store:
        summarise(store, "study", tmp_path)
    steps, frequency = (summary.runs[0].params[f"buffer.{name}"] for name in ("gradient_steps", "train_freq"))
    assert frequency / 2 <= steps <= frequency
    edited(tmp_path, "study", "buffer.gradient_steps", lambda value: value + 1)
    said = f"buffer.gradient_steps is {steps + 1}, and {steps} was drawn"
    with StudyStore(journal(tmp_path)) as store, pytest.raises(UserError, match=said):
        summarise(store, "study", tmp_path)


@pytest.mark.parametrize("gone", [0, 1])
def test_a_trial_removed_from_the_storage_is_missed(tmp_path: Path, gone: int) -> None:
    url = f"sqlite:///{tmp_path / 'studies.db'}"
    study = optuna.create_study(storage=url, study_name="mine")
    study.optimize(lambda trial: 1.0, n_trials=3)
    assert [run.number for run in read_records(study, "screen", tmp_path)] == [0, 1, 2]
    with closing(sqlite3.connect(tmp_path / "studies.db")) as connection, connection:
        connection.execute("DELETE FROM trials WHERE number = ?", (gone,))
    with pytest.raises(UserError, match=f"holds no trial {gone} of mine, and one of number {gone + 1}: somebody has"):
        read_records(optuna.load_study(storage=url, study_name="mine"), "screen", tmp_path)


@pytest.mark.parametrize(
    ("kept", "drawn", "same"),
    [
        *((True, 1, True), (0, False, True), (16, 16.0, True), (0.1 + 0.2, 0.3, True), (None, None, True)),
        ({"0": 1.0, "200": 0.7, "1000": 0.5}, '{"0": 1.0, "1000": 0.5, "200": 0.7}', True),
        *(("a", "b", False), (10**400, 0.5, False), (0.31, 0.3, False), ([1, 2], "[1, 3]", False), ("1", 1, False)),
    ],
)
def test_a_value_beside_a_trial_is_what_was_drawn_as_far_as_a_storage_tells(
    kept: object, drawn: object, same: bool
) -> None:
    assert _is_drawn(kept, drawn) == same
