"""TensorFlow first, Triton afterwards, and the process is gone."""

import importlib
import sys
from pathlib import Path

import pytest

from note_rl.support.triton import settle_triton


@pytest.fixture(autouse=True)
def _neither_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("triton", "tensorflow"):
        monkeypatch.setitem(sys.modules, name, None)  # so that what follows is undone
        monkeypatch.delitem(sys.modules, name)


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("triton", "tensorflow"):
        (tmp_path / f"{name}.py").touch()
    monkeypatch.syspath_prepend(tmp_path)


def test_after_tensorflow_it_stays_out(installed: None) -> None:
    importlib.import_module("tensorflow")
    settle_triton()
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("triton")


def test_before_tensorflow_it_is_there(installed: None) -> None:
    settle_triton()
    assert sys.modules["triton"] is importlib.import_module("triton")
    assert "tensorflow" not in sys.modules


def test_without_tensorflow_nothing_is_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "triton.py").touch()
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    settle_triton()
    assert "triton" not in sys.modules
