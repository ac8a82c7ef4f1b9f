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


def _made_once(folder: Path, *command: str) -> tuple[Path, str]:
    printed = StringIO()
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(printed):
        patch.chdir(folder)
        assert main((*command[:1], *SMALL, *SMALL_AGENTS["dqn"], *command[1:])) == 0
    return folder, printed.getvalue()


@pytest.fixture(scope="session")
def dqn_run_made_once(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A folder with the small run `mine` of DQN, and what `tuner train` printed."""
    return _made_once(tmp_path_factory.mktemp("dqn-run"), "train", "hydra.run.dir=mine")


@pytest.fixture(scope="session")
def dqn_study_made_once(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A folder with the small study `mine` of DQN, and what `tuner tune` printed."""
    return _made_once(
        tmp_path_factory.mktemp("dqn-study"), "tune", *SMALL_STUDY, "study.num_test_seeds=2", "study.name=mine"
    )


@pytest.fixture
def dqn_run(tuner: CommandLine, dqn_run_made_once: tuple[Path, str]) -> None:
    """The same run in the working directory, for tests that look at one."""
    shutil.copytree(dqn_run_made_once[0], tuner.folder, dirs_exist_ok=True)


@pytest.fixture
def dqn_study(tuner: CommandLine, dqn_study_made_once: tuple[Path, str]) -> str:
    """The same study in the working directory, for tests that look at one; what `tuner tune` printed."""
    folder, printed = dqn_study_made_once
    shutil.copytree(folder, tuner.folder, dirs_exist_ok=True)
    return printed
