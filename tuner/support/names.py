"""Names: which are those of folders, and what to say of one that there is not."""

import re
from collections.abc import Iterable
from typing import Final

from note_rl.support.spelling import nearest

_OF_A_FOLDER: Final = re.compile(r"\w[\w.-]*")


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
    return f"; there is {', '.join(known)}" if 0 < len(known) <= 12 else ""
