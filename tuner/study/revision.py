"""Which state of the code a study ran with."""

import subprocess
from pathlib import Path

_PATIENCE_S = 5.0


def code_revision(folder: Path) -> str | None:
    """Commit of the Git repository that a folder lies in, as `3f2a9c1b04de` or `3f2a9c1b04de with changes`.

    Returns:
        None outside of a repository, before its first commit, or where Git is not installed.
    """
    command = ["git", "-C", str(folder), "describe", "--always", "--exclude=*", "--abbrev=12", "--dirty= with changes"]
    try:
        found = subprocess.run(command, capture_output=True, text=True, timeout=_PATIENCE_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return found.stdout.strip() or None if found.returncode == 0 else None
