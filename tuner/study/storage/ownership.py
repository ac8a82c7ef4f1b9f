"""Who runs a study, written down in its storage: a lock file guards one folder, but several may lead to one storage."""

import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import optuna

from tuner.errors import UserError
from tuner.study.definition import StudyDefinition
from tuner.study.storage.presence import StorageFile
from tuner.study.storage.retries import STORAGE_ERRORS, StorageLostError
from tuner.study.storage.store import StudyStore, check_continues
from tuner.trial.messages import JsonDict
from tuner.trial.system import start_time

OWNER = "controller"
"""Attribute of a study: who runs it, or ran it last, and where."""

HEARTBEAT_INTERVAL_S = 30.0
_SILENT_S = 4 * HEARTBEAT_INTERVAL_S
"""A controller on another machine of which nothing was heard for so long counts as dead."""


def refuse_another(store: StudyStore, definition: StudyDefinition, folder: Path | None = None) -> None:
    """Refuses to go on with a study that began otherwise, is run by somebody else, or lies elsewhere. Writes nothing.

    Args:
        store: Where it would be kept.
        definition: The study as it is asked for.
        folder: Where its runs would lie, if not where the definition says.

    Raises:
        UserError: Says which of it, and what to type.
    """
    study = store.find(definition.name)
    if study is not None:
        Ownership(study, folder or definition.study_folder, store.file).check()
        check_continues(study, definition, store.url)


class Ownership:
    """This process's claim on a study.

    Args:
        study: Of the screening stage.
        folder: Where its runs lie.
        file: Of its storage.
    """

    def __init__(self, study: optuna.Study, folder: Path, file: StorageFile) -> None:
        self._study = study
        self._file = file
        self._mark: JsonDict = {
            "host": socket.gethostname(),
            "pid": os.getpid(),
            "started": start_time(os.getpid()),
            "folder": str(folder),
        }
        self._last_heartbeat = 0.0

    def check(self) -> None:
        """Refuses a study that another process runs, or whose runs lie in another folder of this machine."""
        self._refuse_second(self._study.user_attrs.get(OWNER))

    @contextmanager
    def lease(self) -> Iterator[None]:
        """Owns the study for the time of a block.

        Raises:
            UserError: Another process runs it, or its runs lie in another folder of this machine.
        """
        self.check()
        self._write()
        self.check()  # of two that begin at once, the later one stays
        try:
            yield
        except (*STORAGE_ERRORS, StorageLostError):
            raise  # nothing can be written down now
        except BaseException:
            with suppress(StorageLostError):
                self._release()
            raise
        self._release()

    def heartbeat(self) -> bool:
        """Called often: says now and then that this process lives, and sees to it that the storage is there.

        Returns:
            Whether it was time to say so.

        Raises:
            StorageLostError: It is not.
        """
        self._file.check()
        due = time.monotonic() - self._last_heartbeat > HEARTBEAT_INTERVAL_S
        if due:
            self._write()
        return due

    def _release(self) -> None:
        self._study.set_user_attr(OWNER, {**self._mark, "pid": None})

    def _write(self) -> None:
        self._last_heartbeat = time.monotonic()
        self._study.set_user_attr(OWNER, {**self._mark, "at": time.time()})

    def _refuse_second(self, mark: JsonDict | None) -> None:
        if mark is None or (mark["host"], mark["pid"]) == (self._mark["host"], self._mark["pid"]):
            return
        name = self._study.study_name
        here = mark["host"] == self._mark["host"]
        if mark["pid"] is not None:
            silent_s = max(0.0, time.time() - mark["at"])
            alive = start_time(mark["pid"]) == mark["started"] is not None if here else silent_s < _SILENT_S
            if alive:
                where = (
                    f"in {mark['folder']}" if here else f"on {mark['host']}, which was heard of {silent_s:.0f} s ago"
                )
                raise UserError(
                    f"study {name} is being run by process {mark['pid']} {where}; wait for it, stop it, or use another "
                    "study.name"
                )
        if here and mark["folder"] != self._mark["folder"] and Path(mark["folder"]).is_dir():
            raise UserError(
                f"the runs of study {name} lie in {mark['folder']}, and checkpoints with them: go on with "
                f"study.folder={Path(mark['folder']).parent}, or use another study.name"
            )
