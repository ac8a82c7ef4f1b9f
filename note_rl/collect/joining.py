"""Several rounds of collecting as one, and one as several: along T, and along E."""

from collections.abc import Mapping, Sequence

import numpy as np

from note_rl.types import Array, Steps, nested, under

_COLUMNS = ("obs", "action", "reward", "next_obs", "terminated", "ended")


def columns_of(steps: Steps) -> dict[str, Array]:
    """The arrays of steps by name, those of the extras under `extras/`."""
    columns = {name: getattr(steps, name) for name in _COLUMNS}
    if steps.log_prob is not None:
        columns["log_prob"] = steps.log_prob
    return {**columns, **nested("extras", steps.extras)}


def steps_of(columns: Mapping[str, Array]) -> Steps:
    """Steps made of their columns."""
    extras = under("extras", columns)
    return Steps(**{name: columns[name] for name in _COLUMNS}, log_prob=columns.get("log_prob"), extras=extras)


def joined(rounds: Sequence[Steps]) -> Steps:
    """Steps taken one after the other as one, along T."""
    if len(rounds) == 1:
        return rounds[0]
    parts = [columns_of(one) for one in rounds]
    return steps_of({name: np.concatenate([part[name] for part in parts]) for name in parts[0]})


def split(steps: Steps, num_steps: int) -> tuple[Steps, Steps]:
    """The first `num_steps` per environment, and the others."""
    columns = columns_of(steps)
    return (
        steps_of({name: values[:num_steps] for name, values in columns.items()}),
        steps_of({name: values[num_steps:] for name, values in columns.items()}),
    )


def side_by_side(parts: Sequence[Mapping[str, Array]], places: Sequence[Sequence[int]]) -> Steps:
    """Columns [T, e, ...] of the environments of several workers as steps [T, E] of all.

    Args:
        parts: One per worker; copied.
        places: Which of all environments those of each worker are, all E in all.
    """
    num_envs = sum(map(len, places))
    columns = {}
    for name, first in parts[0].items():
        whole = np.empty((first.shape[0], num_envs, *first.shape[2:]), first.dtype)
        for part, place in zip(parts, places, strict=True):
            whole[:, place] = part[name]
        columns[name] = whole
    return steps_of(columns)
