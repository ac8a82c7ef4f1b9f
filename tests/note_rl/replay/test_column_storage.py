"""Pools that memory has no room for lie in a file, and are what they are in memory."""

import logging
import shutil
from collections import namedtuple
from pathlib import Path

import numpy as np
import pytest

from note_rl.errors import SettingsError
from note_rl.replay import column_storage
from note_rl.replay.ring import Ring
from tests.note_rl.replay.story import steps

Usage = namedtuple("Usage", "total used free")


@pytest.fixture
def little_memory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Room for 100 bytes, and a folder for files of pools."""
    monkeypatch.setattr(column_storage, "free_memory", lambda: 200.0)
    monkeypatch.setattr(column_storage.tempfile, "gettempdir", lambda: str(tmp_path))
    return tmp_path


def is_mapped(values: np.ndarray) -> bool:
    return isinstance(values.base, np.memmap)


def test_a_pool_in_a_file_holds_what_one_in_memory_does(little_memory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    filed = Ring(50)
    monkeypatch.setattr(column_storage, "free_memory", lambda: 1e9)
    kept = Ring(50)
    for first in range(0, 120, 30):
        kept.add(steps(first, 30))
    monkeypatch.setattr(column_storage, "free_memory", lambda: 200.0)
    for first in range(0, 120, 30):
        filed.add(steps(first, 30))
    assert is_mapped(filed._fields["obs"])
    assert not is_mapped(kept._fields["obs"])
    assert list(little_memory.iterdir()) == [], "the file is gone with the process, however that ends"
    for name, values in kept.get_state().items():
        np.testing.assert_array_equal(filed.get_state()[name], values)
    taken = filed.column("reward", np.array([3, 7]))
    assert type(taken) is np.ndarray
    again = Ring(50)
    again.set_state(filed.get_state())
    assert is_mapped(again._fields["obs"])
    np.testing.assert_array_equal(again.obs(np.arange(50)), kept.obs(np.arange(50)))


def test_it_is_said(little_memory: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        column_storage.zeros(25, {"obs": ((4,), np.dtype(np.float32))})
    assert "more than 50 % of the free memory" in caplog.text
    assert str(little_memory) in caplog.text
    caplog.clear()
    column_storage.zeros(25, {"obs": ((1,), np.dtype(np.float32))})  # 100 bytes: half of what is free
    assert caplog.text == ""


def test_what_fits_nowhere_is_refused_with_what_does(little_memory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: Usage(0, 0, 400))
    assert len(column_storage.zeros(25, {"obs": ((4,), np.dtype(np.float32))})["obs"]) == 25  # 400 bytes
    with pytest.raises(SettingsError, match=r"takes 0\.0 GB.*choose a capacity of 25 at most, or set TMPDIR"):
        column_storage.zeros(50, {"obs": ((4,), np.dtype(np.float32))})


def test_what_is_free_is_what_the_system_or_the_control_group_says(monkeypatch: pytest.MonkeyPatch) -> None:
    told = {
        "/sys/fs/cgroup/memory.max": "5000000",
        "/sys/fs/cgroup/memory.current": "2000000",
        "/proc/meminfo": "MemTotal: 9000 kB\nMemFree: 10 kB\nMemAvailable:    4000 kB\nBuffers: 1 kB\n",
    }

    def read_text(path: Path, **_: str) -> str:
        if str(path) not in told:
            raise FileNotFoundError(path)
        return told[str(path)]

    monkeypatch.setattr(Path, "read_text", read_text)
    assert column_storage.free_memory() == 3_000_000
    told["/sys/fs/cgroup/memory.max"] = "max"
    assert column_storage.free_memory() == 4_096_000
    told.clear()
    monkeypatch.setattr(column_storage.os, "sysconf", {"SC_PHYS_PAGES": 1000, "SC_PAGE_SIZE": 4096}.__getitem__)
    assert column_storage.free_memory() == 2_048_000
