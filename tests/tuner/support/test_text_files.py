"""Files that are written whole or not at all, and what killed writers leave."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from note_rl.support.atomic_files import atomic_target
from tests.tuner.study.test_limits_of_disks import ROOT, files_of_at_most
from tuner.study.control import sole_controller
from tuner.support.text_files import atomic_write, sweep_unfinished
from tuner.trial.folder import clear_unfinished


def test_what_dead_processes_were_writing_is_removed_and_nothing_else(tmp_path: Path, dead_pid: int) -> None:
    dead = (f".result.json.{dead_pid}-0f.aside", f".checkpoint.safetensors.{dead_pid}-a1b2c3.aside")
    kept = (
        f".result.json.{os.getpid()}-0f.aside",
        f".result.json.{os.getppid()}-0f.aside",
        f".notes.{dead_pid}",
        f"result.json.{dead_pid}-0f.aside",
        ".mine.aside",
        "result.json",
    )
    for name in (*dead, *kept):
        (tmp_path / name).touch()
    (tmp_path / f".folder.{dead_pid}-0f.aside").mkdir()
    sweep_unfinished(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {*kept, f".folder.{dead_pid}-0f.aside"}
    sweep_unfinished(tmp_path / "missing")


def test_a_writer_killed_half_way_leaves_a_file_that_its_successors_remove(tmp_path: Path) -> None:
    script = (
        "import os, signal, sys; from pathlib import Path; from tuner.support import text_files; "
        "os.fsync = lambda descriptor: os.kill(os.getpid(), signal.SIGKILL); "
        "text_files.atomic_write(Path(sys.argv[1]) / 'result.json', 'half')"
    )
    for take_over in (clear_unfinished, lambda folder: sole_controller(folder).__enter__()):
        killed = subprocess.run([sys.executable, "-c", script, str(tmp_path)], cwd=ROOT)
        assert killed.returncode == -signal.SIGKILL
        assert len(list(tmp_path.glob(".result.json.*.aside"))) == 1
        take_over(tmp_path)
        assert list(tmp_path.glob(".*")) == []
    assert not (tmp_path / "result.json").exists()


def test_a_write_that_fails_leaves_the_old_file_and_nothing_beside_it(tmp_path: Path) -> None:
    atomic_write(tmp_path / "file", "old")
    with files_of_at_most(1000), pytest.raises(OSError, match="File too large"):
        atomic_write(tmp_path / "file", "new" * 1000)
    assert (tmp_path / "file").read_text() == "old"
    with atomic_target(tmp_path / "file") as aside:
        aside.write_text("newer")
    assert (tmp_path / "file").read_text() == "newer"
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


@pytest.fixture
def dead_pid() -> int:
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid
