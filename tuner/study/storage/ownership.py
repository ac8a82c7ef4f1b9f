"""The owner of a study, recorded in its storage: a lock file guards one folder, but several may lead to one storage."""

import logging
import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import optuna
from optuna.exceptions import UpdateFinishedTrialError

from tuner.errors import UserError
from tuner.study.definition import StudyDefinition
from tuner.study.storage.homes import key_of
from tuner.study.storage.presence import StorageFile
from tuner.study.storage.retries import STORAGE_ERRORS, StorageLostError
from tuner.study.storage.store import StudyStore, check_continues
from tuner.trial.messages import JsonDict
from tuner.trial.system import start_time

OWNER = "controller"
"""Attribute of a study: who runs it, or ran it last, and where."""

HEARTBEAT_INTERVAL_S = 30.0
_SILENT_S = 4 * HEARTBEAT_INTERVAL_S
"""A controller on another machine whose mark does not change for so long counts as dead."""
_LATELY_S = 2 * HEARTBEAT_INTERVAL_S
_LONG_AGO_S = 24 * 3600.0
"""Clocks of two machines do not differ by so much: older marks need not be watched."""
_LOOK_S = 1.0
_log = logging.getLogger(__name__)


class OwnershipLostError(StorageLostError):
    """Another process has taken the study over: nothing is to be written down any more."""


def refuse_another(
    store: StudyStore, definition: StudyDefinition, folder: Path | None = None, watch: bool = False
) -> None:
    """Refuses to go on with a study that began otherwise, is run by somebody else, or lies elsewhere. Writes nothing.

    Args:
        store: Where it would be kept.
        definition: The study as it is asked for.
        folder: Where its runs would lie, if not where the definition says.
        watch: Whether to wait for signs of life of a controller on another machine, for minutes if there are none; see
            `Ownership.check`.

    Raises:
        UserError: Says which of it, and what to type.
    """
    study = store.find(definition.name)
    if study is not None:
        Ownership(study, folder or definition.study_folder, store.file).check(watch)
        check_continues(study, definition, store.url)


class Ownership:
    """This process's claim on a study.

    To look at the mark and to renew it are two steps: Optuna's storages set attributes whatever they held, and compare
    before they set for the state of a waiting trial only. A process that takes the study over between the two, which
    takes some milliseconds unless this one is halted there, has its mark written over. It finds that out when it
    begins or when it renews its own mark, after `HEARTBEAT_INTERVAL_S` at most, and ends: one of the two stays. In that
    time both may start runs; a run that one has finished cannot be finished by the other.

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

    def check(self, watch: bool = False) -> None:
        """Refuses a study that another process runs, or whose runs lie in another folder of this machine.

        Args:
            watch: Of a process on another machine, whose clock may be wrong, see if its mark changes. Without it, only
                one counts as living that by its clock has given a sign lately.
        """
        mark = self._study.user_attrs.get(OWNER)
        if mark is not None and not self._is_own(mark):
            self._refuse_second(mark, watch)

    @contextmanager
    def lease(self) -> Iterator[None]:
        """Owns the study for the time of a block.

        Raises:
            UserError: Another process runs it, or its runs lie in another folder of this machine.
        """
        self.check()
        self._mark["key"] = key_of(Path(self._mark["folder"]))
        self._write()
        self._require()  # of two that begin at once, the later one stays
        try:
            yield
        except UpdateFinishedTrialError:
            self._require()  # who has taken the study over may have finished the trial
            raise
        except (*STORAGE_ERRORS, StorageLostError):
            raise  # nothing can be written down now
        except BaseException:
            with suppress(StorageLostError):
                self._release()
            raise
        self._release()

    def heartbeat(self) -> bool:
        """Called often, before anything is written: says now and then that this process lives and owns the study.

        Returns:
            Whether it was time to say so.

        Raises:
            StorageLostError: The file of the storage is gone.
            OwnershipLostError: Another process owns the study now.
        """
        self._file.check()
        due = _now() - self._last_heartbeat > HEARTBEAT_INTERVAL_S
        if due:
            self._require()
            self._write()
        return due

    def _release(self) -> None:
        self._require()
        self._study.set_user_attr(OWNER, {**self._mark, "pid": None})

    def _write(self) -> None:
        self._last_heartbeat = _now()
        self._study.set_user_attr(OWNER, {**self._mark, "at": time.time()})

    def _is_own(self, mark: JsonDict) -> bool:
        return all(mark.get(key) == self._mark[key] for key in ("host", "pid", "started"))

    def _require(self) -> None:
        """Sees to it that the study is still this process's (OwnershipLostError)."""
        mark = self._study.user_attrs.get(OWNER)
        if mark is None or self._is_own(mark):
            return
        other = "a process" if mark["pid"] is None else f"process {mark['pid']}"
        raise OwnershipLostError(
            f"study {self._study.study_name} was taken over by {other} on {mark['host']}, as nothing was heard of this "
            "one; it ends here, and goes on there. Nothing that was finished is lost"
        )

    def _refuse_second(self, mark: JsonDict, watch: bool) -> None:
        """Refuses what `check` says, of the mark of another process."""
        name = self._study.study_name
        here = mark["host"] == self._mark["host"]
        if mark["pid"] is not None:
            alive = start_time(mark["pid"]) == mark.get("started") is not None if here else self._is_alive(mark, watch)
            if alive:
                where = f"in {mark['folder']}" if here else f"on {mark['host']}"
                raise UserError(
                    f"study {name} is being run by process {mark['pid']} {where}; wait for it, stop it, or use another "
                    "study.name"
                )
        if here and mark["folder"] != self._mark["folder"] and Path(mark["folder"]).is_dir():
            raise UserError(
                f"the runs of study {name} lie in {mark['folder']}, and checkpoints with them: go on with "
                f"study.folder={Path(mark['folder']).parent}, or use another study.name"
            )

    def _is_alive(self, mark: JsonDict, watch: bool) -> bool:
        """Whether a process of another machine lives: by the clocks where they leave no doubt, or by its signs."""
        silent_s = time.time() - float(mark.get("at") or 0.0)
        if 0.0 <= silent_s < _LATELY_S or not watch or silent_s > _LONG_AGO_S:
            return 0.0 <= silent_s < _LATELY_S
        _log.warning(
            "study %s was run by process %s on %s; whether that still lives is watched for %g s",
            *(self._study.study_name, mark["pid"], mark["host"], _SILENT_S),
        )
        until = _now() + _SILENT_S
        while _now() < until:
            time.sleep(_LOOK_S)
            if self._study.user_attrs.get(OWNER) != mark:
                return True
        return False


def _now() -> float:
    """Seconds by a clock that goes on while the machine sleeps."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)
