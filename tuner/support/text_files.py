"""Texts in files, what was left half written, disks that are full, and reading what others may have damaged."""

import contextlib
import errno
import io
import json
import math
import os
import re
from pathlib import Path
from typing import Any, Final

from note_rl.support.atomic_files import atomic_target

FULL: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""No space, no quota, a file as large as this process may write."""

_ASIDE = re.compile(r"\..+\.(?P<pid>\d{1,10})-\w+\.aside")
"""Temporary names that `note_rl.support.atomic_files.atomic_target` gives to files."""


def parse_json(text: str | bytes) -> Any:
    """The value that a text of JSON stands for.

    Raises:
        ValueError: It is none: no JSON, no UTF-8, or brackets nested so deeply that nobody can have written them.
    """
    try:
        return json.loads(text)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


def read_by_steps(path: Path) -> dict[int, float]:
    """Numbers by environment steps, as a file of JSON holds them; nothing of one that is not there or damaged."""
    try:
        numbers = {int(steps): float(number) for steps, number in parse_json(path.read_bytes()).items()}
    except (OSError, ValueError, TypeError, AttributeError, OverflowError):
        return {}
    return numbers if all(map(math.isfinite, numbers.values())) else {}  # 1e400 is JSON


def atomic_write(path: Path, text: str) -> None:
    r"""Writes a text, all or nothing.

    Args:
        path: Its folder must be there.
        text: Encoded in UTF-8; halves of characters, which have no code there, are written as `\ud800`.
    """
    with atomic_target(path) as aside, aside.open("w", encoding="utf-8", errors="backslashreplace") as file:
        file.write(text)


def open_to_append(path: Path) -> io.FileIO:
    """Opens a file to add to its end; each write reaches the operating system at once.

    Args:
        path: The file is made where there is none.

    Raises:
        OSError: It cannot be written, or a link is in its place: the folder may be somebody else's, and what the link
            leads to is none of its files.
    """
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
    return io.FileIO(os.open(path, flags, 0o666), "ab")


def sweep_unfinished(folder: Path) -> None:
    """Removes what processes that were killed were writing into a folder; files of living ones are left alone."""
    with contextlib.suppress(OSError):  # the folder is not there, or not ours: nothing is to be put right by us
        for entry in os.scandir(folder):
            match = _ASIDE.fullmatch(entry.name)
            if match is not None and entry.is_file(follow_symlinks=False) and not lives(int(match["pid"])):
                os.unlink(entry.path)


def is_full(error: BaseException | None) -> bool:
    """Whether an error, or what it was raised from, says that the disk is full."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        if isinstance(error, OSError) and error.errno in FULL:
            return True
        if getattr(error, "sqlite_errorname", "") == "SQLITE_FULL":
            return True
        error = error.__cause__ or error.__context__
    return False


def lives(pid: int) -> bool:
    """Whether a process of this number runs, of whatever user."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        return True  # another user's
    return True
