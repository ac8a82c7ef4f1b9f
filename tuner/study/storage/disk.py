"""A disk that is full: known for what it is, so that no run is blamed for it."""

import os

from tuner.support.text_files import FULL
from tuner.trial.messages import TrialResult

_WORDS = tuple(word for number in FULL for word in (f"[Errno {number}]", f"(os error {number})", os.strerror(number)))
"""How Python, Rust (safetensors) and C say it."""


def ended_by_full_disk(result: TrialResult) -> bool:
    """Whether a run crashed for it: an exception travels as text."""
    return any(word in text for word in _WORDS for text in (result.reason, result.traceback))
