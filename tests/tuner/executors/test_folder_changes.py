"""A folder in two places: only what changed travels, and a kill leaves no file half written."""

from pathlib import Path

import pytest

from tuner.executors.remote.folder_changes import FolderWatch, Piece, apply_changes, size_of


@pytest.fixture
def here(tmp_path: Path) -> Path:
    (tmp_path / "here").mkdir()
    return tmp_path / "here"


@pytest.fixture
def there(tmp_path: Path) -> Path:
    (tmp_path / "there").mkdir()
    return tmp_path / "there"


def contents(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_of_files_that_grow_only_what_is_new_travels(here: Path, there: Path) -> None:
    watch = FolderWatch(there)
    (there / "reports.jsonl").write_bytes(b"one\n")
    (there / "checkpoint.safetensors").write_bytes(b"weights")
    first = watch.changes()
    assert first == {"reports.jsonl": Piece(0, b"one\n"), "checkpoint.safetensors": Piece(0, b"weights")}
    assert size_of(first) == 11
    apply_changes(here, first)
    with (there / "reports.jsonl").open("ab") as file:
        file.write(b"two\n")
    second = watch.changes()
    assert second == {"reports.jsonl": Piece(4, b"two\n")}
    apply_changes(here, second)
    assert contents(here) == contents(there)
    assert watch.changes() == {}


def test_files_that_shrank_changed_or_went_are_the_same_again(here: Path, there: Path) -> None:
    (there / "history").mkdir()
    for name in ("output.log", "best.safetensors", "history/0.parquet"):
        (there / name).write_bytes(b"a long line of what there was\n")
    watch = FolderWatch(there)
    apply_changes(here, watch.changes())
    (there / "output.log").write_bytes(b"cut\n")
    (there / "best.safetensors").write_bytes(b"better")
    (there / "history" / "0.parquet").unlink()
    changes = watch.changes()
    assert changes["history/0.parquet"] is None
    apply_changes(here, changes)
    assert contents(here) == contents(there) == {"output.log": b"cut\n", "best.safetensors": b"better"}


def test_what_belongs_to_the_machine_or_is_being_written_stays_there(there: Path) -> None:
    for name in ("lock", "pid", ".checkpoint.safetensors.7-ab.aside"):
        (there / name).write_bytes(b"here only")
    (there / "link").symlink_to("/etc/passwd")
    assert FolderWatch(there).changes() == {}


@pytest.mark.parametrize("name", ["../escaped", "/tmp/escaped", "history/../../escaped"])
def test_no_name_leads_out_of_the_folder(here: Path, name: str) -> None:
    with pytest.raises(ValueError, match="is not in"):
        apply_changes(here, {name: Piece(0, b"x")})
    assert not (here.parent / "escaped").exists()


def test_a_folder_that_is_being_written_stays_there_with_its_files(there: Path) -> None:
    aside = there / "state" / ".000002.1-ab.aside" / "files"
    aside.mkdir(parents=True)
    (aside / "model.pt").write_bytes(b"half")
    watch = FolderWatch(there)
    assert watch.changes() == {}
    aside.parent.rename(there / "state" / "000002")
    assert watch.changes() == {"state/000002/files/model.pt": Piece(0, b"half")}
