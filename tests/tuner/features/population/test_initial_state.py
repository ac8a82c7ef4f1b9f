"""Initial state of a member that goes on from another one: of a function, its last checkpoint."""

import os
from pathlib import Path

import numpy as np
import pytest

from tuner.features.population.initial_state import drop_state, inherit
from tuner.runs.function_state import FunctionState
from tuner.trial.folder import REPORTS_FILE


@pytest.mark.parametrize("is_copy", [False, True])
def test_a_function_goes_on_from_the_checkpoint_of_the_other_one(tmp_path: Path, is_copy: bool) -> None:
    source, folder = tmp_path / "source", tmp_path / "new"
    FunctionState(source).write_arrays({"epoch": 3, "w": np.ones(4)})
    (source / REPORTS_FILE).write_text("{}\n")
    inherit(folder, source, is_copy=is_copy)
    drop_state(source)
    assert FunctionState(source).newest() is None
    found = FunctionState(folder).newest()
    assert found is not None
    assert found.read()["epoch"] == 3
    FunctionState(folder).write_arrays({"epoch": 4})
    newest = FunctionState(folder).newest()
    assert newest is not None
    assert newest.read() == {"epoch": 4}


def test_a_program_that_writes_into_its_checkpoint_leaves_that_of_the_other_one_alone(tmp_path: Path) -> None:
    source, mine = tmp_path / "source", tmp_path / "mine"
    mine.mkdir()
    (mine / "state.safetensors").write_text("0100")
    (mine / "run.sh").touch(mode=0o755)
    os.utime(mine / "run.sh", (1.0e9, 1.0e9))
    FunctionState(source).write_folder(mine)
    inherit(tmp_path / "new", source, is_copy=True)
    copied, first = FunctionState(tmp_path / "new").newest(), FunctionState(source).newest()
    assert copied is not None
    assert first is not None
    kept = (copied.read() / "run.sh").stat()
    assert (kept.st_mtime, kept.st_mode & 0o777) == (1.0e9, 0o755)
    (copied.read() / "state.safetensors").write_text("0777")
    assert (first.read() / "state.safetensors").read_text() == "0100"
    assert FunctionState(tmp_path / "new").newest() is None
    assert FunctionState(source).newest() is not None
