"""The format of what is written to be read again: checkpoints with their replay pools, runs, studies, their results.

One number stands for all of it. It was 1 in release 0.1.0, and each later version reads what earlier releases wrote. It
is raised when a version from before the change could not read what is written, so that this is refused there.
"""

import re
from collections.abc import Mapping
from typing import Any, Final

VERSION: Final = "0.1.0"
"""Of the package."""

FORMAT: Final = 1

WRITTEN_BY: Final = "written_by"
"""Under this name the mark stands in a head, a configuration or a result."""

_A_VERSION = re.compile(r"\d[\w.+-]{0,40}")


def marked(content: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the content behind the mark of who wrote it: the version of the package and the format."""
    return {WRITTEN_BY: {"note_rl": VERSION, "format": FORMAT}, **content}


def split_mark(content: Mapping[str, Any]) -> tuple[Any, dict[str, Any]]:
    """Returns the mark, None where there is none, and the content without it."""
    return content.get(WRITTEN_BY), {name: value for name, value in content.items() if name != WRITTEN_BY}


def why_unreadable(mark: object) -> str | None:
    """Says why this version cannot read what bears a mark, with both versions and what to do; None: it can.

    Args:
        mark: As `marked` writes it, or anything else: a file may be damaged, or from anybody.
    """
    told = mark if isinstance(mark, Mapping) else {}
    return why_too_new(told.get("format"), told.get("note_rl"))


def why_too_new(found: object, version: object) -> str | None:
    """Says why this version cannot read a format, see `why_unreadable`.

    Args:
        found: The format.
        version: Of the package that wrote it.
    """
    if not isinstance(found, int) or isinstance(found, bool) or found < 1:
        return "it is damaged: it does not name its format"
    if found <= FORMAT:
        return None
    known = version if isinstance(version, str) and _A_VERSION.fullmatch(version) else None
    by = "a later version of note-rl" if known is None else f"note-rl {known}"
    wanted = "-U note-rl" if known is None else f"'note-rl>={known}'"
    return (
        f"{by} wrote it in format {found}, and this is note-rl {VERSION}, which reads formats up to {FORMAT}: "
        f"pip install {wanted}"
    )
