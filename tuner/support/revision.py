"""Which state of the code is in a folder, by Git.

The repository may be somebody else's, and its configuration names programs: Git is asked in ways that run none of them.
"""

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Final

_PATIENCE_S = 5.0
_COMMIT: Final = ("rev-parse", "--verify", "--short=12", "HEAD")
_CHANGES: Final = (
    *("diff", "--quiet", "--no-ext-diff", "--no-textconv"),
    *("--ignore-submodules=dirty", "HEAD", "--"),  # whose content Git would look at by the submodule's configuration
)
_FILTERS: Final = ("config", "--null", "--show-scope", "--name-only", "--get-regexp", r"^filter\.")
_OF_THE_REPOSITORY: Final = ("local", "worktree")
_WITHOUT_PROGRAMS: Final = {"core.fsmonitor": "false", "core.hooksPath": os.devnull}
_NOT_WRITING: Final = {"GIT_OPTIONAL_LOCKS": "0", "GIT_ALLOW_PROTOCOL": "none", "GIT_NO_LAZY_FETCH": "1"}
"""No index is refreshed on disk, and what is missing is not fetched, which a program might do."""


def code_revision(folder: Path) -> str | None:
    """Commit of the Git repository that a folder lies in, as `3f2a9c1b04de` or `3f2a9c1b04de with changes`.

    Returns:
        None outside of a repository, before its first commit, or where Git is not installed.
    """
    commit = _git(folder, _COMMIT, _WITHOUT_PROGRAMS)
    filters = _git(folder, _FILTERS, _WITHOUT_PROGRAMS)
    if commit is None or commit.returncode or filters is None:
        return None
    scopes_and_names = filters.stdout.split("\0")
    named = zip(scopes_and_names[::2], scopes_and_names[1::2], strict=False)
    off = {name: "" for scope, name in named if scope in _OF_THE_REPOSITORY}
    compared = _git(folder, _CHANGES, {**_WITHOUT_PROGRAMS, **off})
    if compared is None or compared.returncode not in (0, 1):
        return None
    return f"{commit.stdout.strip()}{' with changes' if compared.returncode else ''}"


def _git(
    folder: Path, words: tuple[str, ...], settings: Mapping[str, str]
) -> "subprocess.CompletedProcess[str] | None":
    """Asks Git with these settings before all others; None: it is not installed, or does not answer."""
    given = {"GIT_CONFIG_COUNT": str(len(settings))}  # and not `-c`, where a name ends at the first =
    for index, (name, value) in enumerate(settings.items()):
        given |= {f"GIT_CONFIG_KEY_{index}": name, f"GIT_CONFIG_VALUE_{index}": value}
    environment = {**os.environ, **_NOT_WRITING, **given}
    command = ["git", "-C", str(folder), *words]
    try:
        return subprocess.run(
            command, env=environment, capture_output=True, text=True, errors="replace", timeout=_PATIENCE_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
