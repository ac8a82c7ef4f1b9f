"""The line in the terminal before a command has anything to show; the first text erases it.

Standard library only: it is shown before anything else is imported.
"""

import os
import sys
from collections.abc import Iterable
from typing import Any, TextIO

_streams: list[tuple[TextIO, TextIO]] = []  # stdout and stderr, as long as the line is there


class _Erasing:
    """A stream whose first text erases the line; see `show`."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        """Writes a text in place of the line."""
        if text:
            erase()
        return self._stream.write(text)

    def writelines(self, lines: Iterable[str]) -> None:
        """Writes several."""
        self.write("".join(lines))

    def __getattr__(self, name: str) -> Any:
        """Everything else is the stream's own."""
        return getattr(self._stream, name)


def show(doing: str) -> None:
    """Begins with a line such as "reading the configuration ...", if there is a terminal for it."""
    if _streams or sys.stderr is None or not sys.stderr.isatty() or os.environ.get("TERM") == "dumb":
        return
    _streams.append((sys.stdout, sys.stderr))
    sys.stdout, sys.stderr = _Erasing(sys.stdout), _Erasing(sys.stderr)
    change(doing)


def change(doing: str) -> None:
    """Puts another text in its place; nothing where something was written since."""
    if _streams:
        _, stderr = _streams[0]
        stderr.write(f"\r\x1b[K{doing} ...")
        stderr.flush()


def erase() -> None:
    """Takes the line back."""
    if _streams:
        sys.stdout, sys.stderr = stdout, stderr = _streams.pop()
        stdout.flush()
        stderr.write("\r\x1b[K")
        stderr.flush()
