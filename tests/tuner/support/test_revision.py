"""The commit of a folder, asked of Git in repositories of the user and of strangers."""

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tuner.support.revision import code_revision

Git = Callable[..., str]


@pytest.fixture
def git(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Git:
    """Git in a repository with one commit, which has `file.txt`."""
    folder = tmp_path / "repository"
    folder.mkdir()
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    monkeypatch.setenv("GIT_CONFIG_SYSTEM", os.devnull)

    def call(*words: str) -> str:
        who = ("-c", "user.name=Ann", "-c", "user.email=ann@example.org")
        command = ["git", "-C", str(folder), *who, *words]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    call("init", "--quiet")
    (folder / "file.txt").write_text("one\n")
    call("add", ".")
    call("commit", "--quiet", "-m", "first")
    return call


def test_the_commit_and_whether_something_has_changed(git: Git, tmp_path: Path) -> None:
    folder = tmp_path / "repository"
    commit = git("rev-parse", "HEAD")[:12]
    assert code_revision(folder) == commit
    os.utime(folder / "file.txt", ns=(0, 0))
    assert code_revision(folder) == commit, "the time alone is no change"
    (folder / "file.txt").write_text("two\n")
    assert code_revision(folder) == f"{commit} with changes"


def test_no_commit_no_repository_no_git(git: Git, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    git("checkout", "--quiet", "--orphan", "empty")
    assert code_revision(tmp_path / "repository") is None
    assert code_revision(tmp_path) is None
    monkeypatch.setenv("PATH", str(tmp_path))
    assert code_revision(tmp_path / "repository") is None


@pytest.mark.parametrize(
    ("setting", "attribute"),
    [
        ("core.fsmonitor", ""),
        ("filter.evil.clean", "filter=evil"),
        ("filter.evil.process", "filter=evil"),
        ("filter.a=b.clean", "filter=a=b"),
        ("diff.external", ""),
        ("diff.evil.command", "diff=evil"),
        ("diff.evil.textconv", "diff=evil"),
        ("core.hooksPath", ""),
    ],
)
def test_no_program_of_a_repository_is_run(git: Git, tmp_path: Path, setting: str, attribute: str) -> None:
    folder, program = tmp_path / "repository", tmp_path / "hooks" / "post-index-change"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\ntouch {tmp_path}/owned\ncat\n")
    program.chmod(0o755)
    git("config", setting, str(program.parent if setting == "core.hooksPath" else program))
    (folder / ".git" / "info" / "attributes").write_text(f"* {attribute}\n" if attribute else "")
    commit = git("rev-parse", "HEAD")[:12]
    os.utime(folder / "file.txt", ns=(0, 0))
    assert code_revision(folder) == commit
    (folder / "file.txt").write_text("two\n")
    assert code_revision(folder) == f"{commit} with changes"
    assert not (tmp_path / "owned").exists()


def test_no_program_of_a_submodule_is_run(git: Git, tmp_path: Path) -> None:
    folder, program = tmp_path / "repository", tmp_path / "program"
    program.write_text(f"#!/bin/sh\ntouch {tmp_path}/owned\n")
    program.chmod(0o755)
    git("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", "./", "inner")
    git("commit", "--quiet", "-m", "second")
    git("-C", "inner", "config", "core.fsmonitor", str(program))
    (folder / "inner" / "file.txt").write_text("two\n")
    assert code_revision(folder) == git("rev-parse", "HEAD")[:12]
    assert not (tmp_path / "owned").exists()
