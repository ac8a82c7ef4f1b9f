"""Code of the user's own that runs of this machine have used: a list of digests in the user's state directory.

A digest is that of a setting with all its arguments, and of the file of the module that it names: where the file lies
and what is in it. So another module of the same name is unknown, and so is one that was edited since. The same holds
for the files that a command names, such as its script.
"""

import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from tuner.config.command_words import CommandFile, files_of_line
from tuner.config.sources import origin_of

COMMANDS: Final = ("command", "resume_flag")
"""Arguments that are command lines."""
_MOST_BYTES = 50_000_000  # of a file whose content is looked at


def mark_of(node: Mapping[str, Any], name: str) -> str:
    """The digest by which a setting is known again.

    Args:
        node: The setting with its arguments.
        name: Its target: a module, or a name in one. Nothing is imported.
    """
    known_by: list[Any] = [node, *_file_of(name)]
    named = sorted({file.place for file in files_of_command(node)})
    if named:  # else the digest is that of versions that did not look at them
        known_by.append([[place, _content_of(place)] for place in named])
    return hashlib.sha256(json.dumps(known_by, sort_keys=True, default=str).encode()).hexdigest()


def _file_of(name: str) -> tuple[str, str]:
    """Where the module lies, and the digest of its content; empty where there is none."""
    place = origin_of(name)
    return place, _content_of(place)


def _content_of(place: str) -> str:
    """The digest of a file, of a large one, which is data, its size and time; empty where there is none."""
    with suppress(OSError):
        about = os.stat(place)
        if about.st_size > _MOST_BYTES:
            return f"{about.st_size} {about.st_mtime_ns}"
        return hashlib.sha256(Path(place).read_bytes()).hexdigest()
    return ""


def files_of_command(node: Mapping[str, Any]) -> Iterator[CommandFile]:
    """The files that a command line names: scripts, modules and data."""
    for key in COMMANDS:
        if isinstance(text := node.get(key), str):
            yield from files_of_line(text)


def remembered() -> frozenset[str]:
    """The digests that were noted on this machine."""
    path = _record_file()
    try:
        return frozenset() if path is None else frozenset(path.read_text().split())
    except (OSError, ValueError):
        return frozenset()


def note(marks: Iterable[str]) -> None:
    """Adds digests to the list. Where there is no place for it (a read-only home), nothing is noted."""
    marks, path = set(marks), _record_file()
    if path is None or not marks or not (new := sorted(marks - remembered())):
        return
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "w") as file:
            file.write("".join(f"{mark}\n" for mark in new))


def _record_file() -> Path | None:
    """In the state directory of the XDG Base Directory Specification; None: this user has no place of that kind."""
    given = os.environ.get("XDG_STATE_HOME", "")
    folder = given if os.path.isabs(given) else os.path.expanduser("~/.local/state")
    return Path(folder) / "note-rl" / "code-run-here" if os.path.isabs(folder) else None
