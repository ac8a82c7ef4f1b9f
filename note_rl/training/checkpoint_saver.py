"""Saving while training: every few episodes, the best only, in the background, and how many files are kept."""

import logging
import re
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from note_rl.errors import CheckpointError, SettingsError
from note_rl.support.value_kinds import checked, file_name
from note_rl.training.callbacks import Callback, Logs
from note_rl.training.checkpoint import (
    check_writable,
    remove_checkpoint,
    write_checkpoint,
    write_checkpoint_folder,
)
from note_rl.types import Array

_log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class SavingOptions:
    """Options of saving: the attributes `path`, `save_freq`, ... of an agent.

    Attributes:
        path: The file. With `max_files` above 1, the number of the episode is put before its suffix.
        freq: Episodes between two files.
        max_files: Files kept, the newest ones; None or 1: one file that is replaced.
        best_only: Only when the mean return of the last `trial_count` episodes (10 where set() does not say) is the
            best so far.
        param_only: Parameters without optimizers, pool and random states.
        with_experience: Whether the replay pool goes along.
        in_background: Whether files are written by a thread, from a copy, while training goes on.
        as_folder: Whether a folder with a file for each array is written in place of each file.
    """

    path: Path
    freq: int = 1
    max_files: int | None = None
    best_only: bool = False
    param_only: bool = False
    with_experience: bool = True
    in_background: bool = False
    as_folder: bool = False

    def __post_init__(self) -> None:
        for name, told in checked(save_freq=self.freq, max_save_files=self.max_files).items():
            object.__setattr__(self, "freq" if name == "save_freq" else "max_files", told)


def saving_options(agent: Any, **others: bool) -> SavingOptions | None:
    """The options that an agent's attributes describe; None without `path`.

    Args:
        agent: Whose they are.
        **others: Further arguments of train(): with_experience, in_background and as_folder.

    Raises:
        SettingsError: Options without a path, or values of the wrong kind.
    """
    if agent.path is None:
        for name in ("save_best_only", "save_param_only", "max_save_files"):
            if getattr(agent, name):
                raise SettingsError(f"{name} needs to know where to write: set path, for example path = 'model.dat'")
        return None
    return SavingOptions(
        path=Path(file_name("path", agent.path)),
        freq=agent.save_freq,
        max_files=agent.max_save_files,
        best_only=agent.save_best_only,
        param_only=agent.save_param_only,
        **others,
    )


@dataclass(frozen=True)
class Snapshot:
    """Contents of a file."""

    arrays: Mapping[str, Array]
    head: Mapping[str, Any]

    def copy(self) -> "Snapshot":
        """The same with arrays that training does not write to."""
        return Snapshot({name: np.array(values) for name, values in self.arrays.items()}, self.head)


class FileWriter:
    """Writes snapshots to files (or folders), in this thread or in another one, at most one at a time."""

    def __init__(self, in_background: bool, as_folder: bool = False) -> None:
        self._in_background = in_background
        self._write_checkpoint = write_checkpoint_folder if as_folder else write_checkpoint
        self._thread: threading.Thread | None = None
        self._failure: CheckpointError | None = None

    def write(self, path: Path, snapshot: Snapshot, written: Callable[[], None]) -> None:
        """Writes one file, once the former one is done.

        Args:
            path: Replaced in one move.
            snapshot: Copied first, if it is written in the background.
            written: Called when the file is there.

        Raises:
            CheckpointError: This file (in the background: the former one) could not be written.
        """
        self.wait()
        if not self._in_background:
            self._write_checkpoint(path, snapshot.arrays, snapshot.head)
            written()
            return
        arguments = (path, snapshot.copy(), written)
        self._thread = threading.Thread(target=self._write, args=arguments, name="note_rl-saving")
        self._thread.start()

    def _write(self, path: Path, snapshot: Snapshot, written: Callable[[], None]) -> None:
        try:
            self._write_checkpoint(path, snapshot.arrays, snapshot.head)
            written()
        except CheckpointError as error:
            self._failure = error

    def wait(self) -> None:
        """Until the file is there.

        Raises:
            CheckpointError: It could not be written.
        """
        self.join()
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure

    def join(self) -> None:
        """Until nothing is being written any more, successfully or not."""
        if self._thread is not None:
            self._thread.join()
            self._thread = None


class Saver(Callback):
    """Saves the agent at the end of training phases, when nothing is half done.

    Args:
        options: When, what and where.
        snapshot: What is to be written at this moment.
        record: What earlier calls of train() left; changed here.
        mean_return: Of the last `trial_count` episodes; None while there are too few.

    Raises:
        CheckpointError: Nothing can be written there.
    """

    changes_parameters = False
    writes_checkpoints = True

    def __init__(
        self,
        options: SavingOptions,
        snapshot: Callable[[SavingOptions], Snapshot],
        record: "SavingRecord",
        mean_return: Callable[[], float | None],
    ) -> None:
        self._options = options
        self._snapshot = snapshot
        self._record = record
        self._mean_return = mean_return
        check_writable(options.path, options.as_folder)
        record.begin(options.path)
        self._writer = FileWriter(options.in_background, options.as_folder)
        self._saved_episode = self._episode()

    def _episode(self) -> int:
        return int(self.agent.num_episodes) if self.agent is not None else 0

    def on_train_begin(self, logs: Logs) -> None:
        """Notes where the count of episodes stands."""
        self._saved_episode = self._episode()

    def on_phase_end(self, phase: int, logs: Logs) -> None:
        """Saves if the phase took the count of episodes past a multiple of `freq`."""
        if self._episode() // self._options.freq > self._saved_episode // self._options.freq:
            self._save()

    def on_train_end(self, logs: Logs) -> None:
        """Saves what the last files do not hold yet, and waits for it."""
        if not self._options.best_only:
            if self._episode() > self._saved_episode:
                self._save()
        elif self._record.best is None:
            _log.warning("save_best_only wrote no file to %s: fewer episodes than trial_count", self._options.path)
        self._writer.wait()

    def close(self) -> None:
        """Waits for a file under way, also after training failed, whose own error is then the one to show."""
        try:
            self._writer.wait()
        except CheckpointError as error:
            _log.error("%s", error)

    def _save(self) -> None:
        self._saved_episode = self._episode()
        if self._options.best_only:
            mean = self._mean_return()
            if mean is None or (self._record.best is not None and mean <= self._record.best):
                return
            self._record.best = mean
        path = self._target()
        doomed = self._record.add(path, self._options)
        self._writer.write(path, self._snapshot(self._options), lambda: _remove(doomed))

    def _target(self) -> Path:
        path = self._options.path
        if (self._options.max_files or 1) == 1:
            return path
        return path.with_name(f"{path.stem}-{self._episode()}{path.suffix}")


@dataclass
class SavingRecord:
    """Which files were written and how good the best was; goes into checkpoints, so that a resumed run knows.

    Attributes:
        files: Names of the numbered files, oldest first.
        best: Best mean return a file was written for.
        name: Of the file, or what names of numbered files are made of; None: it is not known.
        path: The same with its folder, as long as that is known: it stands in no file.
    """

    files: list[str]
    best: float | None = None
    name: str | None = None
    path: Path | None = None

    def begin(self, path: Path) -> None:
        """Writing begins: at another place nothing is the best yet."""
        if self.name not in (None, path.name) or self.path not in (None, path.absolute()):
            self.best = None
        self.name, self.path = path.name, path.absolute()

    def add(self, path: Path, options: SavingOptions) -> list[Path]:
        """Notes a file; returns those that are too many now.

        Only names that this very `path` leads to are ever returned: the record may come from somebody else's file.
        """
        if path == options.path:
            return []
        pattern = re.compile(re.escape(path.stem.rpartition("-")[0]) + r"-\d+" + re.escape(path.suffix))
        own = [name for name in self.files if pattern.fullmatch(name) and name != path.name]
        kept = [*own, path.name][-(options.max_files or 1) :]
        self.files = [name for name in self.files if name not in own and name != path.name] + kept
        return [path.with_name(name) for name in own if name not in kept]

    def to_json(self) -> dict[str, Any]:
        """For the head of a checkpoint."""
        return {"files": self.files, "best": self.best, "name": self.name}

    @classmethod
    def from_json(cls, stored: Any) -> "SavingRecord":
        """From the head of a checkpoint; empty where it holds nothing usable."""
        if not isinstance(stored, Mapping):
            return cls([])
        best = stored.get("best")
        names = stored.get("files")
        files = [name for name in names if isinstance(name, str)] if isinstance(names, list) else []
        name = stored.get("name")
        of_name = name if isinstance(name, str) else None
        return cls(files, float(best) if isinstance(best, int | float) else None, of_name)


def _remove(paths: list[Path]) -> None:
    for path in paths:
        try:
            remove_checkpoint(path)
        except OSError as error:
            _log.warning("cannot remove the former file %s: %s", path, error.strerror)
