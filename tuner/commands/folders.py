"""Folders that are written into: made and tried before anything runs."""

from pathlib import Path

from tuner.errors import UserError


def make_folder(folder: Path, key: str) -> None:
    """Makes a folder and tries to write into it.

    Args:
        folder: Absolute.
        key: The setting that names another one.

    Raises:
        UserError: It cannot be made or written to.
    """
    in_the_way = next((part for part in (folder, *folder.parents) if part.is_file()), None)
    if in_the_way is not None:
        raise UserError(
            f"the folder {folder} cannot be used: {in_the_way} is a file; choose another with {key}=... "
            "or move the file away"
        )
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
