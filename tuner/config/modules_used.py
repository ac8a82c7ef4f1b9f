"""Code of the user's own that runs of this machine have used: a list of digests in the user's state directory.

A digest is that of a setting with all its arguments, and of the file of the module that it names: where the file lies
and what is in it. So another module of the same name is unknown, and so is one that was edited since. The same holds
for the files that a command names, such as its script.
"""

import hashlib
import json
import os
import shlex
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from tuner.config.sources import find_deepest

_COMMANDS = ("command", "resume_flag")
_MOST_BYTES = 50_000_000  # of a file whose content is looked at


def mark_of(node: Mapping[str, Any], name: str) -> str:
    """The digest by which a setting is known again.

    Args:
        node: The setting with its arguments.
        name: Its target: a module, or a name in one. Nothing is imported.
    """
    known_by: list[Any] = [node, *_file_of(name)]
    named = sorted(files_of_command(node))
    if named:  # else the digest is that of versions that did not look at them
        known_by.append([[place, _content_of(place)] for place in named])
    return hashlib.sha256(json.dumps(known_by, sort_keys=True, default=str).encode()).hexdigest()


def _file_of(name: str) -> tuple[str, str]:
    """Where the module lies, and the digest of its content; empty where there is none."""
    with suppress(AttributeError, ImportError, ValueError):  # of names that are no paths
        spec, _ = find_deepest(name.partition(":")[0].split("."))
        if spec is not None and spec.origin is not None:
            place = os.path.realpath(spec.origin) if spec.has_location else spec.origin
            return place, _content_of(place)
    return "", ""


def _content_of(place: str) -> str:
    """The digest of a file, of a large one, which is data, its size and time; empty where there is none."""
    with suppress(OSError):
        about = os.stat(place)
        if about.st_size > _MOST_BYTES:
            return f"{about.st_size} {about.st_mtime_ns}"
        return hashlib.sha256(Path(place).read_bytes()).hexdigest()
    return ""


def files_of_command(node: Mapping[str, Any]) -> set[str]:
    """The files that a command line names, where they lie: scripts and modules, not the programs of the system."""
    found: set[str] = set()
    for key in _COMMANDS:
        if isinstance(text := node.get(key), str):
            found.update(files_in(text))
    return found


def files_in(text: str) -> Iterator[str]:
    """The files that a text of commands names, where they lie; what is not there is none."""
    try:
        words = shlex.split(text)
    except ValueError:
        words = text.split()
    for number, word in enumerate(words):
        if word != text and len(word.split()) > 1:  # bash -c 'python train.py'
            yield from files_in(word)
        for name in (word, word.partition("=")[2]):
            if name and os.path.isfile(name):
                yield os.path.realpath(name)
            elif name and os.path.isfile(main := os.path.join(name, "__main__.py")):
                yield os.path.realpath(main)
        if number and words[number - 1] == "-m" and (place := _file_of(word)[0]):
            yield os.path.realpath(place)


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
