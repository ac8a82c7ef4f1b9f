"""A disk that is full: known for what it is, so that no run is blamed for it."""

import errno

from tuner.trial.messages import TrialResult

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""No space, no quota, a file as large as this process may write."""


def is_full(error: BaseException) -> bool:
    """Whether this error says so."""
    return isinstance(error, OSError) and error.errno in FULL


def ended_by_full_disk(result: TrialResult) -> bool:
    """Whether a run crashed for it: an exception travels as text, in which Python names the number."""
    return any(f"[Errno {number}]" in text for number in FULL for text in (result.reason, result.traceback))
