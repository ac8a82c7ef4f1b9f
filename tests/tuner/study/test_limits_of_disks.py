"""Killed writers, full disks, storage files that vanish, and commands that must write nothing."""

import hashlib
import json
import os
import resource
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.tuner.command_line import SMALL, SMALL_AGENTS, CommandLine
from tests.tuner.reporting.summaries import full_study
from tests.tuner.studies import FakeExecutor, journal, run_study, sqlite
from tests.tuner.study_records import check_complete
from tuner.errors import UserError
from tuner.executors.base import Event
from tuner.reporting import write_page
from tuner.study.storage.disk import ended_by_full_disk
from tuner.study.storage.open_storage import has_studies, open_storage
from tuner.study.storage.retries import StorageLostError
from tuner.support.text_files import is_full
from tuner.trial.folder import acquire_lock
from tuner.trial.messages import Outcome, TrialResult

ROOT = Path(__file__).parents[3]


@contextmanager
def files_of_at_most(num_bytes: int) -> Iterator[None]:
    """Files may not grow further, as on a disk that is full."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (num_bytes, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def snapshot(folder: Path) -> dict[str, str]:
    return {
        str(path): hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else "a folder"
        for path in sorted(folder.rglob("*"))
    }


# Killed writers


# Full disks


@pytest.mark.parametrize("text", ["[Errno 28] No space", "I/O error: (os error 28)", "write: Disk quota exceeded"])
def test_a_run_that_died_of_a_full_disk_is_known_by_what_it_says(text: str) -> None:
    assert ended_by_full_disk(TrialResult(Outcome.CRASHED, f"SomeError: {text}"))
    assert ended_by_full_disk(TrialResult(Outcome.CRASHED, "x", f"Traceback\n{text}\nduring handling\n"))
    assert not ended_by_full_disk(TrialResult(Outcome.CRASHED, "OSError: [Errno 2] No such file"))


def test_a_full_disk_is_known_behind_other_errors() -> None:
    try:
        try:
            raise OSError(28, "No space left on device")
        except OSError as error:
            raise RuntimeError("commit failed") from error
    except RuntimeError as error:
        wrapped = error
    assert is_full(wrapped)
    assert not is_full(ValueError("No space left"))
    assert not is_full(None)


def test_a_page_that_the_disk_has_no_room_for_is_a_clear_word(tmp_path: Path) -> None:
    with files_of_at_most(100_000), pytest.raises(UserError, match=r"the report cannot be written .*: File too large"):
        write_page(full_study(), tmp_path)
    assert not list(tmp_path.glob(".*"))


def test_a_checkpoint_that_the_disk_has_no_room_for_is_a_clear_word(tuner: CommandLine) -> None:
    run = ("train", *SMALL[:4], *SMALL_AGENTS["dqn"], "network.hidden_sizes=[300,300]", "hydra.run.dir=mine")
    with files_of_at_most(200_000):
        answer = tuner(*run)
    assert answer.status == 2, answer
    assert "cannot write a checkpoint to mine/best.safetensors: File too large" in answer.errors
    assert "Traceback" not in answer.errors
    assert not list(Path("mine").glob(".*"))


def test_any_other_write_that_finds_the_disk_full_is_a_clear_word(
    tuner: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device", "somewhere")

    monkeypatch.setattr("tuner.commands.train.make_progress", full)
    answer = tuner("train", *SMALL, "hydra.run.dir=mine")
    assert answer.status == 2
    assert answer.errors.startswith("tuner train: the disk is full ([Errno 28] No space left on device: 'somewhere')")
    assert "Traceback" not in answer.errors


def test_a_database_that_cannot_be_made_on_a_full_disk_is_a_clear_word(tmp_path: Path) -> None:
    with files_of_at_most(20_000), pytest.raises(UserError, match=r"cannot be (opened|read): .*(full|I/O error)"):
        open_storage(sqlite(tmp_path))


def test_a_database_that_cannot_be_read_just_now_is_not_called_damaged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    open_storage(sqlite(tmp_path))

    def fail(*_: object, **__: object) -> None:
        raise sqlite3.OperationalError("disk I/O error")

    monkeypatch.setattr("tuner.study.storage.open_storage.sqlite3.connect", fail)
    monkeypatch.setattr("tuner.study.storage.open_storage._room_left", lambda path: "; the disk is full: make room")
    with pytest.raises(UserError, match=r"cannot be read: disk I/O error; the disk is full: make room"):
        open_storage(sqlite(tmp_path))


# A storage file that is deleted while a study runs


class Deleting(FakeExecutor):
    """Does something to the storage file after `after` events."""

    def __init__(self, path: Path, after: int, replace: bool) -> None:
        super().__init__(2)
        self._path, self._events_left, self._replace = path, after, replace
        self.on_event = self._count

    def _count(self, event: Event) -> None:
        self._events_left -= 1
        if self._events_left == 0:
            self._path.unlink()
            if self._replace:
                self._path.touch()


@pytest.mark.parametrize("replace", [False, True])
def test_a_database_deleted_while_a_study_runs_is_noticed_and_saved(tmp_path: Path, replace: bool) -> None:
    path = tmp_path / "studies.db"
    with pytest.raises(StorageLostError, match=r"studies\.db was deleted or replaced") as caught:
        run_study(tmp_path, Deleting(path, 100, replace), url=sqlite(tmp_path))
    (saved,) = tmp_path.glob("studies.db.saved-*")
    assert str(saved) in str(caught.value)
    for stale in tmp_path.glob("studies.db*"):
        if stale != saved:
            stale.unlink()
    saved.rename(path)
    executor = FakeExecutor(2)
    check_complete(run_study(tmp_path, executor, url=sqlite(tmp_path)))
    assert "screen/0" not in [spec.key for spec in executor.started], "what had finished was saved"


def test_a_journal_deleted_while_a_study_runs_is_noticed(tmp_path: Path) -> None:
    with pytest.raises(StorageLostError, match=r"studies\.journal was deleted or replaced(.|\n)*Put it back"):
        run_study(tmp_path, Deleting(tmp_path / "studies.journal", 100, False), url=journal(tmp_path))


# Commands that write nothing

TINY = (
    *("agent=synthetic", "executor=inline", "tracker=jsonl", "study.num_trials=3", "study.num_race_seeds=0"),
    *("study.num_candidates=1", "study.num_select_seeds=1", "study.num_test_seeds=1", "study.name=mine"),
    "storage=journal",
)


def test_a_plan_writes_nothing(tuner: CommandLine) -> None:
    answer = tuner("tune", *TINY, "plan=true")
    assert answer.status == 0, answer.errors
    assert "environment steps" in answer.output
    Path("studies.db").touch()
    assert tuner("tune", *TINY, "plan=true").status == 0
    assert snapshot(tuner.folder) == {str(tuner.folder / "studies.db"): hashlib.sha256().hexdigest()}
    Path("studies.db").unlink()
    assert "plan=true plans one study: leave -m out" in tuner.refused("tune", "-m", *TINY, "plan=true", "seed=1,2")


def test_a_study_that_may_not_go_on_so_is_left_as_it_is(tuner: CommandLine) -> None:
    assert tuner("tune", *TINY).status == 0
    before = snapshot(tuner.folder)
    for change, reason in (
        ("seed=5", "seed was 0 and is 5"),
        ("space.agent.learning_rate.high=2", "was begun with another search space"),
        ("study.folder=elsewhere", "the runs of study mine lie in studies/mine"),
        ("plan=true", ""),
    ):
        answer = tuner("tune", *TINY, change)
        assert answer.status == (2 if reason else 0)
        assert reason in answer.errors
        assert snapshot(tuner.folder) == before


def test_a_run_that_somebody_else_continues_is_left_as_it_is(tuner: CommandLine) -> None:
    assert tuner("train", *SMALL, *SMALL_AGENTS["dqn"], "hydra.run.dir=mine").status == 0
    before = snapshot(tuner.folder)
    lock = acquire_lock(Path("mine"), 1.0)
    assert lock is not None
    try:
        answer = tuner("train", "resume=mine", "training.total_steps=480")
    finally:
        os.close(lock)
    assert (answer.status, "another process is training in" in answer.errors) == (2, True)
    assert snapshot(tuner.folder) == before
    answer = tuner("train", "resume=mine", "agent.gamma=0.5")
    assert (answer.status, snapshot(tuner.folder)) == (2, before)
    assert tuner("train", "resume=mine", "training.total_steps=480").status == 0
    assert json.loads(Path("mine/reports.jsonl").read_text().splitlines()[-1])["step"] == 1.0


@pytest.mark.parametrize("name", ["studies.db", "studies.journal"])
@pytest.mark.parametrize("command", ["report", "dashboard"])
def test_commands_that_read_leave_an_empty_file_empty(tuner: CommandLine, command: str, name: str) -> None:
    url = f"{'sqlite' if name.endswith('db') else 'journal'}:///{name}"
    Path(name).touch()
    assert f"there is no study in {url} yet: run `tuner tune` first" in tuner.refused(command, f"storage.url={url}")
    assert Path(name).stat().st_size == 0


def test_whether_there_are_studies_is_found_out_without_making_any(tmp_path: Path) -> None:
    for url in (sqlite(tmp_path), journal(tmp_path), "memory"):
        assert not has_studies(url)
    assert list(tmp_path.iterdir()) == []
    with sqlite3.connect(tmp_path / "studies.db") as database:
        database.execute("VACUUM")
    database.close()
    assert not has_studies(sqlite(tmp_path)), "a database without tables"
    for url in (sqlite(tmp_path), journal(tmp_path)):
        open_storage(url)
        run_study(tmp_path, url=url)
        assert has_studies(url)
