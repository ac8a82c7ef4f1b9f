"""Where W&B's service may keep its log: else it writes that to the terminal."""

import os
import stat
from pathlib import Path

import pytest

from tuner.trackers.wandb.run_mode import CACHE_VARIABLE, have_a_cache


@pytest.fixture(autouse=True)
def nothing_told(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (CACHE_VARIABLE, "XDG_CACHE_HOME"):
        monkeypatch.setenv(name, "")  # is put back afterwards


def test_a_home_that_can_be_written_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    have_a_cache()
    assert os.environ[CACHE_VARIABLE] == ""
    assert (tmp_path / ".cache" / "wandb" / "logs").is_dir()


@pytest.mark.parametrize("variable", ["HOME", "XDG_CACHE_HOME"])
def test_elsewhere_it_is_a_temporary_folder_of_ones_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    (tmp_path / "file").touch()  # in which nobody can make a folder, not even root
    monkeypatch.setenv(variable, str(tmp_path / "file"))
    have_a_cache()
    made = Path(os.environ[CACHE_VARIABLE])
    assert stat.S_IMODE(made.stat().st_mode) == 0o700
    have_a_cache()
    assert os.environ[CACHE_VARIABLE] == str(made)
    made.rmdir()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file"]
