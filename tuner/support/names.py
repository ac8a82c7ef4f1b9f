"""Names: which are those of folders, and what to say of one that there is not."""

import re
from collections.abc import Iterable, Sequence
from typing import Final

from note_rl.support.near_names import nearest

_OF_A_FOLDER: Final = re.compile(r"\w[\w.-]*")
_MOST_LISTED: Final = 12


def is_folder_name(name: str) -> bool:
    """Whether a folder can be called so on any machine: no separators, nothing hidden, no way up."""
    return _OF_A_FOLDER.fullmatch(name) is not None


def one_of(meant: Iterable[str]) -> str:
    """`; did you mean X or Y?`, or nothing if there is none."""
    listed = " or ".join(meant)
    return f"; did you mean {listed}?" if listed else ""


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """`; did you mean X?`, or the names there are if none is near, or nothing if there are none or too many."""
    known = sorted(set(known))
    close = nearest(name, known)
    if close:
        return one_of(close)
    return some_of(known) if len(known) <= _MOST_LISTED else ""


def some_of(known: Sequence[str]) -> str:
    """`; there is X, Y and Z`, of many names the first ones and how many more; nothing if there are none."""
    more = f" and {len(known) - _MOST_LISTED} more" if len(known) > _MOST_LISTED else ""
    return f"; there is {', '.join(known[:_MOST_LISTED])}{more}" if known else ""
