"""Saying something once, however often it happens."""

import logging
import re

_said: set[str] = set()


def say_once(logger: logging.Logger, sentence: str) -> None:
    """Logs a sentence as a warning, the first time in this process only."""
    if sentence not in _said:
        _said.add(sentence)
        logger.warning("%s", sentence)


def about_shapes(error: Exception) -> str:
    """The line of a framework's message that says which shapes do not fit; else its first one."""
    lines = [re.sub(r"\x1b\[\d*m", "", line).strip() for line in str(error).splitlines()]
    said = [line for line in lines if line and not line.startswith(("File ", "in user code", "Exception encountered"))]
    telling = [line for line in said if re.search(r"shape|size|dimension|axis|dtype|rank", line)]
    best = [line for line in telling if "xpected" in line]
    return next(iter([*best, *telling, *said]), type(error).__name__)
