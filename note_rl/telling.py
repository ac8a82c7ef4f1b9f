"""Saying something once, however often it happens."""

import logging

_said: set[str] = set()


def say_once(logger: logging.Logger, sentence: str) -> None:
    """Logs a sentence as a warning, the first time in this process only."""
    if sentence not in _said:
        _said.add(sentence)
        logger.warning("%s", sentence)
