"""Fixtures of the tests of commands."""

from pathlib import Path

import pytest

from tests.tuner.command_line import CommandLine


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def fake_executor(tuner: CommandLine) -> None:
    """A group of the user's own, with an executor that needs no processes."""
    folder = tuner.folder / "mine" / "executor"
    folder.mkdir(parents=True)
    (folder / "fake.yaml").write_text("_target_: tests.tuner.studies.FakeExecutor\nparallel: 2\n")
