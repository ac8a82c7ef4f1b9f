"""Which folder is that of a study: a storage names one, and may be anybody's; a key in both says that they go together.

Nobody who has not seen the folder knows its key, so that a storage from elsewhere can name any folder, but claim none.
"""

import os
import secrets
from contextlib import suppress
from pathlib import Path

from tuner.study.control import LOCK_FILE
from tuner.trial.messages import JsonDict

KEY_FILE = "study.key"
_KEY_BYTES = 16


def key_of(folder: Path) -> str | None:
    """The key of a folder, made now if it has none; None where none can be read or written."""
    path = folder / KEY_FILE
    with suppress(OSError):
        if not os.path.lexists(path):
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            with open(descriptor, "w") as file:
                file.write(secrets.token_hex(_KEY_BYTES))
    return _read(path)


def is_home(folder: Path, mark: JsonDict) -> bool:
    """Whether controllers that have run the study wrote to a folder, and this one may do so unasked.

    Studies of earlier versions have no key: theirs is below the working directory, and a controller has been there.

    Args:
        folder: As the storage names it.
        mark: Left in the storage by the last controller.
    """
    if "key" in mark:
        return mark["key"] is not None and mark["key"] == _read(folder / KEY_FILE)
    return (folder / LOCK_FILE).is_file() and folder.resolve().is_relative_to(Path.cwd())


def _read(path: Path) -> str | None:
    """The key in a file; None: there is none."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    with open(descriptor, "rb") as file:
        text = file.read(4 * _KEY_BYTES).decode(errors="replace")
    return text if len(text) == 2 * _KEY_BYTES else None
