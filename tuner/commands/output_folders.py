"""Folders that are written into: made and tried before anything runs."""

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from tuner.errors import UserError


def make_folder(folder: Path, key: str) -> list[Path]:
    """Makes a folder and tries to write into it.

    Args:
        folder: Absolute.
        key: The setting that names another one.

    Returns:
        The folders that were made, this one first and then those above it.

    Raises:
        UserError: It cannot be made or written to.
    """
    in_the_way = next((part for part in (folder, *folder.parents) if part.is_file()), None)
    if in_the_way is not None:
        raise UserError(
            f"the folder {folder} cannot be used: {in_the_way} is a file; choose another with {key}=... "
            "or move the file away"
        )
    made = [place for place in (folder, *folder.parents) if not place.exists()]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe = folder / ".writable"
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise UserError(
            f"the folder {folder} cannot be used: {error.strerror}; choose another with {key}=... "
            "or start in a folder that you may write to"
        ) from error
    return made


def remove_empty(folders: Iterable[Path]) -> None:
    """Removes folders that nothing was written into."""
    for folder in folders:
        with suppress(OSError):  # it is not empty, or gone
            folder.rmdir()
