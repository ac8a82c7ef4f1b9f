"""Several rounds of collecting as one."""

from collections.abc import Sequence

import numpy as np

from note_rl.types import Steps

_COLUMNS = ("obs", "action", "reward", "next_obs", "terminated", "ended")


def joined(rounds: Sequence[Steps]) -> Steps:
    """Steps taken one after the other as one, along T."""
    first = rounds[0]
    if len(rounds) == 1:
        return first
    log_probs = [one.log_prob for one in rounds if one.log_prob is not None]
    return Steps(
        **{name: np.concatenate([getattr(one, name) for one in rounds]) for name in _COLUMNS},
        log_prob=np.concatenate(log_probs) if log_probs else None,
        extras={name: np.concatenate([one.extras[name] for one in rounds]) for name in first.extras},
    )
