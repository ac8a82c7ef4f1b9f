"""Which study a sweep goes on with."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.tuner.sweeper.test_sweep_study import SameFolder, definition
from tuner.errors import UserError
from tuner.study import StudyStore
from tuner.study.control import LOCK_FILE
from tuner.study.run_registry import RunEnd
from tuner.study.storage.store import begin_or_continue
from tuner.study.sweep.job_registry import SweepRegistry
from tuner.study.sweep.kept_inputs import keep_inputs
from tuner.study.sweep.study_choice import SweepPlace, named_study, unnamed_study
from tuner.study.sweep.sweep_study import SWEEP_FOLDER
from tuner.trial.messages import Outcome


def test_an_edited_file_is_refused_with_a_name_and_begins_anew_without(tmp_path: Path) -> None:
    with StudyStore("memory") as store:
        study = store.open("s", "screen", directions=("minimize",))
        begin_or_continue(study, definition(), store.url)
        keep_inputs(study, {"data.json": "1"})
        same, other = (SweepPlace(tmp_path, True, {"data.json": digest}.get) for digest in "12")
        notes: list[str] = []
        assert named_study(store, definition(), same) == definition()
        assert unnamed_study(store, definition(), same, notes.append).name == "s"
        with pytest.raises(UserError, match=r"data\.json was 1 and is 2"):
            named_study(store, definition(), other)
        assert unnamed_study(store, definition(), other, notes.append).name == "s-2"
        assert notes == [
            "the jobs of study s read files that have changed: data.json was 1 and is 2. So this is a new one: s-2"
        ]


@pytest.fixture
def store() -> Iterator[StudyStore]:
    with StudyStore("memory") as opened:
        yield opened


def ran(store: StudyStore, name: str, folder: Path, code: str, num_jobs: int = 3) -> None:
    """Runs `num_jobs` jobs of 3 of a study."""
    sweep = replace(definition(), name=name, config={"code": {"app.py": code}})
    study = store.open(name, "screen", directions=("minimize",))
    begin_or_continue(study, sweep, store.url)
    study.set_user_attr(SWEEP_FOLDER, str(folder))
    folder.mkdir(exist_ok=True)
    (folder / LOCK_FILE).touch()
    registry = SweepRegistry(study, sweep, SameFolder("x"), folder, total=3)
    for _ in range(num_jobs):
        run = registry.next_run()
        assert run is not None
        registry.tell(run, RunEnd(Outcome.COMPLETE, 1.0, "", 1.0))


def chosen(store: StudyStore, folder: Path, code: str, *, by_clock: bool = True) -> tuple[str, list[str]]:
    notes: list[str] = []
    sweep = replace(definition(), config={"code": {"app.py": code}})
    found = unnamed_study(store, sweep, SweepPlace(folder, by_clock), notes.append)
    return found.name, notes


def test_a_sweep_without_a_name_goes_on_only_if_it_was_interrupted_and_is_the_same(
    store: StudyStore, tmp_path: Path
) -> None:
    assert chosen(store, tmp_path, "a") == ("s", [])
    ran(store, "s", tmp_path, "a", num_jobs=1)
    assert chosen(store, tmp_path, "a") == ("s", []), "interrupted"
    name, notes = chosen(store, tmp_path, "b")
    assert name == "s-2"
    assert notes == [
        "study s was begun with other settings: code.app.py was a and is b. So this is a new one: s-2",
    ]
    ran(store, "s-2", tmp_path, "b")
    assert chosen(store, tmp_path, "b")[0] == "s-3", "it was done"
    assert chosen(store, tmp_path, "a") == ("s", []), "the edit was taken back"


def test_a_folder_that_was_typed_is_another_sweep(store: StudyStore, tmp_path: Path) -> None:
    ran(store, "s", tmp_path / "there", "a", num_jobs=1)
    assert chosen(store, tmp_path / "elsewhere", "a", by_clock=True)[0] == "s"
    assert chosen(store, tmp_path / "there", "a", by_clock=False)[0] == "s"
    assert chosen(store, tmp_path / "elsewhere", "a", by_clock=False)[0] == "s-2"


def test_a_sweep_with_a_name_is_that_study_or_is_refused(store: StudyStore, tmp_path: Path) -> None:
    ran(store, "s", tmp_path / "there", "a", num_jobs=1)
    here = SweepPlace(tmp_path / "there", by_clock=False)
    same = replace(definition(), config={"code": {"app.py": "a"}})
    assert named_study(store, same, here) == same
    with pytest.raises(UserError, match=r"code\.app\.py was a and is b"):
        named_study(store, replace(same, config={"code": {"app.py": "b"}}), here)
    elsewhere = SweepPlace(tmp_path / "elsewhere", by_clock=False)
    with pytest.raises(UserError, match=rf"are in {here.folder}: leave study.folder={elsewhere.folder} out"):
        named_study(store, same, elsewhere)
    assert named_study(store, same, replace(elsewhere, by_clock=True)) == same
