"""Settings of a run that are better not shared: paths of this machine, and what looks like a secret."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from tuner.support.passwords import hidden
from tuner.support.plain_text import MAX_NAME, one_line

_PATH: Final = re.compile(r"(?<![\w:/.~$}])(~?/[\w.+@-]+/[^\s'\"]*|~/[\w.+@-]+|[A-Za-z]:\\[^\s'\"]+)")
"""An absolute path of two names or more; addresses have a colon before theirs."""
_SECRET: Final = re.compile(r"(?i)\w*(password|passwd|passphrase|secret|token|api_?key)\w*")


def private_settings(config: Mapping[str, Any]) -> list[str]:
    """Returns the settings to look at before a configuration is given away; secrets without their values."""
    found = []
    for path, value in _leaves(config, ""):
        if _SECRET.fullmatch(path.rpartition(".")[2]) or hidden(value) != value:
            found.append(f"{path} (it looks like a secret)")
        elif (match := _PATH.search(value)) is not None:
            found.append(f"{path}={one_line(value, MAX_NAME)} ({one_line(match[0], MAX_NAME)} is of this machine)")
    return found


def _leaves(node: object, path: str) -> Iterator[tuple[str, str]]:
    """All texts in it, by their keys."""
    if isinstance(node, Mapping):
        for key, value in node.items():
            yield from _leaves(value, f"{path}.{key}" if path else str(key))
    elif isinstance(node, str):
        yield path, node
    elif isinstance(node, Sequence):
        for value in node:
            yield from _leaves(value, path)
