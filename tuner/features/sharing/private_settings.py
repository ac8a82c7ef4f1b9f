"""Settings of a run that are better not shared: paths of this machine, and what looks like a secret."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from tuner.support.passwords import NAMES, hidden
from tuner.support.plain_text import MAX_NAME, one_line

_PATH: Final = re.compile(
    r"(?<![\w:/.~$}])(?:~?//?[\w.+@-]+/[^\s'\"]*|~/[\w.+@-]+|\\\\[^\s'\"]+)"
    r"|(?<!\w)(?:[A-Za-z]:[\\/]|file:/+|(?:sqlite|journal)(?:\+\w+)?:////)[^\s'\"]+"
)
"""An absolute path of two names or more, or of another machine; addresses of the web have a colon before theirs."""
_SECRET: Final = re.compile(
    rf"(?i)\w*({NAMES}|token|credential|(api|private|access)_?key|bearer)\w*|(\w*_)?auth(_\w+)?|pass"
)
_SECRET_NUMBER: Final = re.compile(rf"(?i)\w*({NAMES})\w*|pass")
"""For numbers: a number of tokens is no secret."""


def private_settings(config: Mapping[str, Any]) -> list[str]:
    """Returns the settings to look at before a configuration is given away; secrets without their values."""
    found = []
    for path, value in _leaves(config, ""):
        telling = _SECRET if isinstance(value, str) else _SECRET_NUMBER
        if any(map(telling.fullmatch, path.split("."))) or hidden(str(value)) != str(value):
            found.append(f"{path} (it looks like a secret)")
        elif isinstance(value, str) and (match := _PATH.search(value)) is not None:
            found.append(f"{path}={one_line(value, MAX_NAME)} ({one_line(match[0], MAX_NAME)} is of this machine)")
    return found


def _leaves(node: object, path: str) -> Iterator[tuple[str, str | float]]:
    """All texts and numbers in it, by their keys; an empty text says nothing."""
    if isinstance(node, Mapping):
        for key, value in node.items():
            yield from _leaves(value, f"{path}.{key}" if path else str(key))
    elif isinstance(node, str) or (isinstance(node, int | float) and not isinstance(node, bool)):
        if node != "":
            yield path, node
    elif isinstance(node, Sequence):
        for value in node:
            yield from _leaves(value, path)
