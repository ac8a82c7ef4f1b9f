"""The folder of a trial in two places: what has changed on one side, taken over on the other."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeAlias

from note_rl.support.atomic_files import atomic_target
from tuner.trial.folder import LOCK_FILE, METRICS_FILE, OUTPUT_FILE, PID_FILE, REPORTS_FILE

_GROWING: Final = frozenset((REPORTS_FILE, METRICS_FILE, OUTPUT_FILE))
_OF_THE_MACHINE: Final = frozenset((LOCK_FILE, PID_FILE))


@dataclass(frozen=True)
class Piece:
    """The content of a file from an offset on, up to its end; at offset 0 all of it."""

    offset: int
    content: bytes


Changes: TypeAlias = Mapping[str, Piece | None]
"""By name relative to the folder; None: the file is gone."""


class FolderWatch:
    """Says what has changed in a folder since it was last asked.

    Of files that grow only what is new is read. Lock and process number are the machine's own and stay there, and so
    does what is being written aside.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._seen: dict[str, tuple[int, int]] = {}

    def changes(self) -> dict[str, Piece | None]:
        """Files that are new, changed or gone; a file that vanishes while it is read comes with the next call."""
        found: dict[str, Piece | None] = {}
        present = set()
        for path in sorted(self._folder.rglob("*")):
            name = path.relative_to(self._folder).as_posix()
            being_written = ".aside/" in f"{name}/"  # the file, or a folder that it is in
            if name in _OF_THE_MACHINE or being_written or path.is_symlink() or not path.is_file():
                continue
            try:
                piece = self._new_in(path, name)
            except FileNotFoundError:
                continue
            present.add(name)
            if piece is not None:
                found[name] = piece
        for name in self._seen.keys() - present:
            del self._seen[name]
            found[name] = None
        return found

    def _new_in(self, path: Path, name: str) -> Piece | None:
        with path.open("rb") as file:
            about = os.fstat(file.fileno())
            changed_at, size = self._seen.get(name, (0, 0))
            if (about.st_mtime_ns, about.st_size) == (changed_at, size):
                return None
            offset = size if name in _GROWING and about.st_size >= size else 0
            file.seek(offset)
            content = file.read()
        self._seen[name] = (about.st_mtime_ns, offset + len(content))
        return Piece(offset, content)


def size_of(changes: Changes) -> int:
    """How many bytes they carry."""
    return sum(len(piece.content) for piece in changes.values() if piece is not None)


def apply_changes(folder: Path, changes: Changes) -> None:
    """Takes over what changed elsewhere. Whole files are moved into place, growing ones are continued.

    Raises:
        ValueError: A name leads out of the folder.
        OSError: It cannot be written.
    """
    root = folder.resolve()
    for name, piece in changes.items():
        path = folder / name
        if not path.resolve().is_relative_to(root):
            raise ValueError(f"{name} is not in {folder}")
        if piece is None:
            path.unlink(missing_ok=True)
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        if piece.offset:
            with path.open("r+b") as file:
                file.seek(piece.offset)
                file.write(piece.content)
                file.truncate()
        else:
            with atomic_target(path) as aside:
                aside.write_bytes(piece.content)
