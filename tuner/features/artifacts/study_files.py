"""Artifacts of several studies, each in the folder of its own study."""

import filecmp
import shutil
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, Final

import optuna
from optuna.artifacts import FileSystemArtifactStore, upload_artifact
from optuna.artifacts.exceptions import ArtifactNotFound

from note_rl.support.atomic_files import atomic_target
from tuner.study.optuna_internals import artifacts_of

FOLDER: Final = "artifacts"
"""In the folder of a study."""


def keep(study: optuna.Study, home: Path, file: Path) -> None:
    """Makes a file an artifact of a study, or renews the one of this name.

    Args:
        study: The artifact is noted with it.
        home: The folder of the study.
        file: It is copied.
    """
    folder = home / FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    store, known = FileSystemArtifactStore(folder), artifacts_of(study).get(file.name)
    if known is None:
        upload_artifact(artifact_store=store, file_path=str(file), study_or_trial=study)
        return
    with suppress(OSError):  # it is not there: its study was noted on another machine, or the copy was cut short
        if filecmp.cmp(folder / known, file, shallow=False):
            return
    with atomic_target(folder / known) as aside:  # a dashboard may be serving it
        shutil.copyfile(file, aside)


class StudyFiles:
    """The store of artifacts that a dashboard reads: it takes one, and each study has its own folder.

    Args:
        homes: The folders of studies. What somebody adds in the dashboard goes to the first.
    """

    def __init__(self, homes: Iterable[Path]) -> None:
        self._stores = [FileSystemArtifactStore(home / FOLDER) for home in homes]

    def open_reader(self, artifact_id: str) -> BinaryIO:
        """See `optuna.artifacts`.

        Raises:
            ArtifactNotFound: No folder has it.
        """
        for store in self._stores:
            with suppress(ArtifactNotFound):
                return store.open_reader(artifact_id)
        raise ArtifactNotFound(f"no study has the artifact {artifact_id}")

    def write(self, artifact_id: str, content_body: BinaryIO) -> None:
        """See `optuna.artifacts`."""
        self._stores[0].write(artifact_id, content_body)

    def remove(self, artifact_id: str) -> None:
        """See `optuna.artifacts`.

        Raises:
            ArtifactNotFound: No folder has it.
        """
        for store in self._stores:
            with suppress(ArtifactNotFound):
                return store.remove(artifact_id)
        raise ArtifactNotFound(f"no study has the artifact {artifact_id}")
