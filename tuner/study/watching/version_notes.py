"""Versions of packages under which the runs of a study have run."""

from collections.abc import Callable

import optuna

from tuner.study.run_registry import Run
from tuner.study.storage.store import keep_versions, unlike_versions
from tuner.study.watching.study_listener import StudyListener


class VersionNotes(StudyListener):
    """Keeps the versions of a session in which a run begins, and says so where earlier runs had others.

    Args:
        study: Optuna's, of the first stage.
        backend: Framework of the study.
        on_note: Gets the sentence.
    """

    def __init__(self, study: optuna.Study, backend: str, on_note: Callable[[str], None]) -> None:
        self._study, self._backend, self._on_note = study, backend, on_note
        self._is_kept = False

    def on_start(self, run: Run) -> None:
        """A run begins, or goes on from its checkpoint."""
        if self._is_kept:
            return
        self._is_kept = True
        keep_versions(self._study, self._backend)
        if unlike := unlike_versions(self._study):
            self._on_note(unlike)
