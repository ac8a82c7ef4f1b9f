"""Fixtures of the tests of commands."""

import contextlib
import shutil
from io import StringIO
from pathlib import Path

import pytest

from tests.tuner.command_line import SMALL, SMALL_AGENTS, SMALL_STUDY, CommandLine
from tuner.cli import main


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


@pytest.fixture(scope="session")
def dqn_study_made_once(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A folder with the small study `mine` of DQN, and what `tuner tune` printed."""
    folder, printed = tmp_path_factory.mktemp("dqn-study"), StringIO()
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(printed):
        patch.chdir(folder)
        assert main(("tune", *SMALL, *SMALL_AGENTS["dqn"], *SMALL_STUDY, "study.name=mine")) == 0
    return folder, printed.getvalue()


@pytest.fixture
def dqn_study(tuner: CommandLine, dqn_study_made_once: tuple[Path, str]) -> str:
    """The same study in the working directory, for tests that read it; what `tuner tune` printed."""
    folder, printed = dqn_study_made_once
    shutil.copytree(folder, tuner.folder, dirs_exist_ok=True)
    return printed
