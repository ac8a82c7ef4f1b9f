"""Reading what another process has written: JSON as values of the types that it claims to be, or a ValueError.

Standard library only, as the fork server loads this before anything else.
"""

import os
import stat
from pathlib import Path
from typing import Any, TypeVar

from note_rl.support.formats import split_mark, why_unreadable
from tuner.support.text_files import parse_json

_T = TypeVar("_T")


def read_file(path: Path, limit: int) -> bytes:
    """The content of a file that a trial may have put anything in the place of. Never waits.

    Args:
        path: Of the file.
        limit: Bytes; of a longer file the last ones are returned.

    Raises:
        OSError: There is no such file, or something else is there: a pipe would have to be waited for.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(descriptor, "rb") as file:
        about = os.fstat(descriptor)
        if not stat.S_ISREG(about.st_mode):
            raise OSError(f"{path} is no file")
        file.seek(max(0, about.st_size - limit))
        return file.read(limit)


def parse_object(text: str | bytes) -> dict[str, Any]:
    """Reads a JSON object.

    Raises:
        ValueError: It is none, or nested so deeply that it cannot be read.
    """
    content = parse_json(text)
    if not isinstance(content, dict):
        raise ValueError(f"expected a JSON object, not {text[:200]!r}")
    return content


def parse_marked(text: str | bytes) -> dict[str, Any]:
    """Reads a JSON object of a file of ours, without the mark of who wrote it.

    Raises:
        ValueError: See `parse_object`; or a later version wrote it, in a format that this one does not know.
    """
    return unmarked(parse_object(text))


def unmarked(content: dict[str, Any]) -> dict[str, Any]:
    """Returns what a file of ours holds without the mark of who wrote it; without a mark it is of the first format.

    Raises:
        ValueError: A later version wrote it, in a format that this one does not know.
    """
    mark, rest = split_mark(content)
    why = None if mark is None else why_unreadable(mark)
    if why is not None:
        raise ValueError(why)
    return rest
