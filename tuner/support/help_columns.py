"""Lines of two columns, as on a help page: what it is about, and beside it what is said of it."""

import re
import shutil
import textwrap
from collections.abc import Iterable, Iterator
from typing import Final, TextIO

INDENT: Final = 2
_LEAST: Final = 26
"""Columns that a text has beside its name; where there are fewer, it stands below."""


def width_of(stream: TextIO) -> int | None:
    """Columns of a terminal; None: it is none, and nothing is to be wrapped there."""
    return shutil.get_terminal_size().columns if stream.isatty() else None


def in_columns(rows: Iterable[tuple[str, str]], first: int, width: int | None) -> list[str]:
    """The rows as lines; a text that is too long goes on below its own beginning.

    In a terminal too narrow for two columns, texts stand below their names.

    Args:
        rows: Of a name and a text. A name too long for its column has a line of its own.
        first: Columns of the names.
        width: Of a line; None: lines are as long as they come.
    """
    left = INDENT + first + INDENT
    if width is not None and width - left < _LEAST:
        return [line for name, text in rows for line in _below(name, text, width)]
    lines = []
    for name, text in rows:
        wrapped = wrapped_text(text, None if width is None else width - left)
        heads = [name, *[""] * (len(wrapped) - 1)]
        if not wrapped or len(name) > first:
            lines.append(f"{'':{INDENT}}{name}")
            heads = [""] * len(wrapped)
        lines += [f"{'':{INDENT}}{head:<{first}}{'':{INDENT}}{line}" for head, line in zip(heads, wrapped, strict=True)]
    return lines


def _below(name: str, text: str, width: int) -> Iterator[str]:
    """A name, broken behind blanks and commas where it is longer than a line, and its text further in."""
    line, room = "", width - INDENT
    for part in re.findall(rf"[^ ,]{{1,{room - 1}}}[ ,]?|[ ,]", name):
        if len(line + part.rstrip()) > room:
            yield f"{'':{INDENT}}{line.rstrip()}"
            line = ""
        line += part
    if line:
        yield f"{'':{INDENT}}{line}"
    yield from (f"{'':{2 * INDENT}}{one}" for one in wrapped_text(text, width - 2 * INDENT))


def wrapped_text(text: str, width: int | None) -> list[str]:
    """A text in lines of a number of columns; words, such as paths, stay whole."""
    if width is None:
        return [text] if text else []
    return textwrap.wrap(text, width, break_long_words=False, break_on_hyphens=False)
