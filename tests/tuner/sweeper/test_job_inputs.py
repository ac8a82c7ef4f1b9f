"""Identity of a sweep besides configuration and code: the files that its jobs read."""

import importlib
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from omegaconf import OmegaConf

from tuner.errors import UserError
from tuner.study import StudyStore
from tuner.study.sweep.kept_inputs import check_inputs, inputs_of, keep_inputs
from tuner.sweeper.job_inputs import InputFiles, Reading, noting_inputs

FILES = (
    "read.json",
    "written.json",
    "both.json",
    "unread.json",
    "named.bin",
    ".git/HEAD",
    "runs/0/out",
    "site-packages/m",
)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in (*(f"app/{name}" for name in FILES), "elsewhere.bin", "unnamed.bin"):
        (tmp_path / name).parent.mkdir(exist_ok=True, parents=True)
        (tmp_path / name).write_text("1")
    (tmp_path / "app" / "helper_of_inputs.py").write_text("PLUS = 1\n")
    monkeypatch.chdir(tmp_path / "app")
    monkeypatch.syspath_prepend(tmp_path / "app")
    return tmp_path


def files(folder: Path) -> InputFiles:
    config = {"named": "named.bin", "all": [{"elsewhere": str(folder / "elsewhere.bin")}], "word": "helper", "n": 3}
    return InputFiles.of([OmegaConf.create(config)])


def noted(folder: Path, task: Callable[[], object]) -> dict[str, str | None]:
    reading = Reading()
    with noting_inputs(files(folder), folder / "app" / "runs", reading):
        task()
    return reading.digests


def test_files_that_a_task_reads_and_modules_that_it_imports_are_noted(folder: Path) -> None:
    def task() -> None:
        importlib.import_module("helper_of_inputs")
        Path("read.json").read_text()
        os.close(os.open("both.json", os.O_RDONLY))
        for name in ("written.json", "both.json", "new.json"):
            Path(name).write_text("2")
        for name in (".git/HEAD", "runs/0/out", "site-packages/m", "../unnamed.bin", os.__file__):
            Path(name).read_text()
        with pytest.raises(FileNotFoundError):
            Path("missing.json").read_text()
        with pytest.raises(ValueError, match="null"):
            Path("\0").read_text()

    read = noted(folder, task)
    sys.modules.pop("helper_of_inputs")
    elsewhere = str(folder / "elsewhere.bin")
    same = {"helper_of_inputs.py", "read.json", "named.bin", elsewhere}
    assert {name for name, digest in read.items() if digest is not None} == same
    assert {name for name, digest in read.items() if digest is None} == {"written.json", "both.json", "new.json"}
    later = files(folder)
    assert {name: later.digest(name) for name in same} == {name: read[name] for name in same}
    (folder / "app" / "read.json").write_text("2")
    assert later.digest("read.json") not in (None, read["read.json"])
    Path("unread.json").read_text()
    assert "unread.json" not in read, "outside of the task nobody listens"


def test_what_a_process_of_the_task_changes_is_no_input(folder: Path) -> None:
    def task() -> None:
        Path("read.json").read_text()
        subprocess.run(["cp", "unread.json", "read.json"], check=True)

    assert noted(folder, task)["read.json"] is None


def test_a_storage_makes_nobody_read_what_is_no_input(folder: Path) -> None:
    os.mkfifo(folder / "app" / "pipe")
    found = [
        files(folder).digest(name) for name in ("../unnamed.bin", "/etc/passwd", "pipe", ".git/HEAD", "\0", "gone")
    ]
    assert found == [None] * 6


def test_the_first_digest_of_a_file_stays_unless_jobs_change_it() -> None:
    study = StudyStore("memory").open("s", "screen", directions=("minimize",))
    keep_inputs(study, {"a": "1", "b": "1"})
    keep_inputs(study, {"a": "2", "b": None, "c": None})
    keep_inputs(study, {"b": "3", "c": "1"})
    assert inputs_of(study) == {"a": "1", "b": None, "c": None}
    check_inputs(study, {"a": "1"}.get)
    with pytest.raises(UserError, match=r"study s read files that have changed: a was 1 and is 2\."):
        check_inputs(study, {"a": "2"}.get)
    with pytest.raises(UserError, match=r"a is gone\.\n.*study\.name=s-2"):
        check_inputs(study, lambda name: None)
    study.set_user_attr("inputs", ["a"])
    assert inputs_of(study) == {}
