"""Writing files that are never half there."""

import os
from pathlib import Path


def write_aside(path: Path, text: str) -> None:
    r"""Writes a file so that readers see the old one or the new one, never a part, not even after a power cut.

    Args:
        path: Its folder must be there.
        text: Encoded in UTF-8; halves of characters, which have no code there, are written as `\ud800`.
    """
    aside = path.with_name(f".{path.name}.{os.getpid()}")
    with aside.open("w", encoding="utf-8", errors="backslashreplace") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    aside.replace(path)
