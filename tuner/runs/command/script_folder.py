"""The working directory of a program: made, emptied, and kept aside until it is certain that nobody needs it again.

Folders are only moved as a whole, so that a kill at any instant leaves one that is complete.
"""

import contextlib
import hashlib
import json
import os
import shutil
from pathlib import Path

from note_rl.support.formats import marked
from tuner.config.modules_used import note, remembered
from tuner.runs.command.metric_files import PROGRESS_FILE, MetricReader
from tuner.runs.command.score_grid import ScoreGrid
from tuner.support.text_files import atomic_write
from tuner.trial.foreign import parse_marked

SCRIPT_FOLDER = "script"
"""The working directory of the program, in the folder of the run."""


class ScriptFolder:
    """The working directory of a run's program, and up to where its files were read.

    Args:
        run: The folder of the run.

    Attributes:
        path: Of the working directory.
    """

    def __init__(self, run: Path) -> None:
        self.path = (run / SCRIPT_FOLDER).absolute()
        self._former, self._waste, self._made = (
            self.path.with_name(f"{SCRIPT_FOLDER}-{what}") for what in ("former", "waste", "made")
        )
        _remove(self._waste)
        self.take_back()

    @property
    def was_made_here(self) -> bool:
        """Whether a program of this user has worked in it, in this place."""
        return self._mark in remembered()

    def note_place(self) -> None:
        """Before a program is started in it: what it leaves there is this user's own."""
        note([self._mark])

    @property
    def _mark(self) -> str:
        return hashlib.sha256(f"program in {os.path.realpath(self.path)}".encode()).hexdigest()

    def empty(self, reader: MetricReader, grid: ScoreGrid, keep: bool = False) -> None:
        """Puts an empty folder in place.

        Args:
            reader: Of the program that begins anew.
            grid: Its points.
            keep: Whether the folder that was there is kept until `settle`, for `take_back`.
        """
        _remove(self._made)
        self._made.mkdir(parents=True)
        _save(self._made / PROGRESS_FILE, reader, grid)
        if self.path.exists():
            self.path.rename(self._former if keep else self._waste)
        self._made.rename(self.path)
        _remove(self._waste)

    def settle(self) -> None:
        """The program that began anew has given a value: what was there before is not needed."""
        if self._former.exists():
            self._former.rename(self._waste)
            _remove(self._waste)

    def take_back(self) -> None:
        """The program that began anew has given nothing: what was there before is put back, if it was kept."""
        if self._former.exists():
            if self.path.exists():
                self.path.rename(self._waste)
            self._former.rename(self.path)
            _remove(self._waste)

    def save(self, reader: MetricReader, grid: ScoreGrid) -> None:
        """Keeps what was read before the program is started again."""
        _save(self.path / PROGRESS_FILE, reader, grid)

    def restore(self, reader: MetricReader, grid: ScoreGrid) -> None:
        """Goes on from what was read before the last start; without it, files are read from their beginnings."""
        try:
            kept = parse_marked((self.path / PROGRESS_FILE).read_bytes())
            files = dict(kept["files"])
            grid.restore(kept["points"])
            reader.go_to(files)
        except (OSError, ValueError, TypeError, KeyError, AttributeError, OverflowError):
            return


def newest_of(folder: Path, files: str, most: int) -> list[Path]:
    """The files of a pattern that were changed last, the newest first; of several names of a file, one."""
    found: dict[Path, tuple[float, str]] = {}
    for path in folder.glob(f"**/{files}"):
        with contextlib.suppress(OSError):  # removed in between, or a link to nothing
            real = path.resolve(strict=True)
            found[real] = max(found.get(real, (0.0, "")), (path.stat().st_mtime, str(path)))
    return [Path(name) for _, name in sorted(found.values(), reverse=True)[:most]]


def _save(path: Path, reader: MetricReader, grid: ScoreGrid) -> None:
    atomic_write(path, json.dumps(marked({"files": reader.positions, "points": grid.state()})))


def _remove(path: Path) -> None:
    if path.is_symlink():
        path.unlink()
    else:
        shutil.rmtree(path, ignore_errors=True)
