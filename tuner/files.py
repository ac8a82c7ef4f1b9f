"""Writing files that are never half there, and reading what others may have damaged."""

import json
import os
from pathlib import Path
from typing import Any


def parse_json(text: str | bytes) -> Any:
    """The value that a text of JSON stands for.

    Raises:
        ValueError: It is none: no JSON, no UTF-8, or brackets nested so deeply that nobody can have written them.
    """
    try:
        return json.loads(text)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


def write_aside(path: Path, text: str) -> None:
    """Writes a file so that readers see the old one or the new one, never a part, not even after a power cut.

    Args:
        path: Its folder must be there.
        text: Encoded in UTF-8.
    """
    aside = path.with_name(f".{path.name}.{os.getpid()}")
    with aside.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    aside.replace(path)
