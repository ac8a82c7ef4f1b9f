"""Storages and disks that fail in the middle of a study: a wait, then a clear end, and nothing lost."""

import resource
from pathlib import Path
from typing import Any

import optuna
import pytest
from optuna.storages.journal import JournalFileBackend

from tests.tuner.command_line import CommandLine
from tests.tuner.studies import FakeExecutor, Script, journal, learn, run_study, sqlite
from tests.tuner.study_records import check_complete
from tuner.study import StudyError
from tuner.study.storage.retries import StorageLostError
from tuner.study.storage.store import StudyStore
from tuner.trial.messages import Outcome, TrialResult, TrialSpec

# A full disk


def test_a_journal_that_cannot_grow_ends_the_study_and_it_goes_on_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    append, left = JournalFileBackend.append_logs, [60]

    def full(backend: JournalFileBackend, logs: list[dict[str, Any]]) -> None:
        left[0] -= 1
        if left[0] < 0:
            raise OSError(28, "No space left on device")
        append(backend, logs)

    monkeypatch.setattr(JournalFileBackend, "append_logs", full)
    with pytest.raises(StorageLostError, match=r"cannot be written down any more: .*No space left on device"):
        run_study(tmp_path, FakeExecutor(2))
    monkeypatch.setattr(JournalFileBackend, "append_logs", append)
    check_complete(run_study(tmp_path, FakeExecutor(2)))


def test_a_run_is_not_blamed_for_a_full_disk(tmp_path: Path) -> None:
    def behave(spec: TrialSpec, attempt: int) -> Script:
        script = learn(spec, attempt)
        if spec.key == "screen/3" and attempt == 1:
            full = TrialResult(Outcome.CRASHED, "OSError: [Errno 28] No space left on device", seconds=1.0)
            return Script(script.curve[:4], full)
        return script

    with pytest.raises(StudyError, match=r"the disk is full, .*: screen/3 could not write"):
        run_study(tmp_path, FakeExecutor(2, behave))
    check_complete(run_study(tmp_path, FakeExecutor(2)))


def test_a_disk_that_is_full_when_the_winner_is_written_down_is_a_clear_word(
    tuner: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    study = ("tune", "agent=synthetic", "executor=inline", "storage=journal", "study.num_trials=2", "study.name=mine")
    study += ("study.num_candidates=1", "study.num_test_seeds=1", "study.num_race_seeds=0")

    def full(*arguments: Any) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr("tuner.commands.tune._write_experiment", full)
        answer = tuner(*study)
    assert answer.status == 2
    assert "cannot be written down any more: [Errno 28] No space left on device" in answer.errors
    again = tuner(*study)
    assert again.status == 0
    assert "train the winner again" in again.output


def test_a_database_file_that_may_not_grow_ends_the_study_and_it_goes_on_later(tmp_path: Path) -> None:
    study = {"url": sqlite(tmp_path), "num_trials": 16}
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (250_000, before[1]))
    try:
        with pytest.raises(StorageLostError, match="the study cannot be written down any more") as lost:
            run_study(tmp_path, FakeExecutor(2), **study)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert "the same command goes on" in str(lost.value)
    check_complete(run_study(tmp_path, FakeExecutor(2), **study), num_trials=16)


@pytest.mark.parametrize("database", [True, False])
def test_a_study_that_is_deleted_while_it_runs_is_said(tmp_path: Path, database: bool) -> None:
    url = sqlite(tmp_path) if database else journal(tmp_path)

    def behave(spec: Any, attempt: int) -> Any:
        if spec.key == "screen/1":
            with StudyStore(url) as store:
                optuna.delete_study(study_name="study", storage=store.require("study")._storage)
        return learn(spec, attempt)

    with pytest.raises(StorageLostError, match="study study was deleted from the storage while it ran"):
        run_study(tmp_path, FakeExecutor(behave=behave), url=url)
