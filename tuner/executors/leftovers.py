"""Processes on this machine that controllers left when they were killed, and how they are ended."""

from pathlib import Path

from tuner.trial import folder as files
from tuner.trial import orphans

PATIENCE_S = 30.0
"""How long a process of a killed controller may take to checkpoint and leave by itself."""


class Leftovers:
    """Frees the folders of trials from the processes of controllers that are dead."""

    def __init__(self) -> None:
        self._sessions: set[str] = set()

    def end_in(self, folder: Path) -> None:
        """Waits until no process works in the folder of a trial, and ends one that stays."""
        self._sessions |= files.sessions_of([folder])
        if not files.wait_until_free(folder, PATIENCE_S):
            files.end_leftover(folder)

    def end_deserted(self) -> None:
        """Ends what else the dead controllers of these folders have left.

        To be called when every folder has been freed, as the trials that checkpoint are marked as theirs, too.
        """
        orphans.end_deserted(self._sessions)
        self._sessions.clear()
