"""Several rounds of collecting as one, and one as several: along T, and along E."""

from collections.abc import Mapping, Sequence

import numpy as np

from note_rl.types import EXTRAS, STEP_COLUMNS, Array, Steps, nested, under


def columns_of(steps: Steps) -> dict[str, Array]:
    """The arrays of steps by name, those of the extras under `extras/`."""
    columns = {name: getattr(steps, name) for name in STEP_COLUMNS}
    if steps.log_prob is not None:
        columns["log_prob"] = steps.log_prob
    return {**columns, **nested(EXTRAS, steps.extras)}


def steps_of(columns: Mapping[str, Array]) -> Steps:
    """Steps made of their columns."""
    always = {name: columns[name] for name in STEP_COLUMNS}
    return Steps(**always, log_prob=columns.get("log_prob"), extras=under(EXTRAS, columns))


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


def shares_of_ends(steps: Steps, num_episodes: int) -> list[float]:
    """How far steps had got when each episode ended in them, in order; 1 is their own end.

    Args:
        steps: Of one round of collecting.
        num_episodes: That ended in it. Where environments miss steps (see `Rows`), the last steps of some may be handed
            on later; then all count as having ended with the round.
    """
    if not num_episodes:
        return []
    rows = np.nonzero(steps.ended)[0]
    if len(rows) != num_episodes:
        return [1.0] * num_episodes
    return [float(share) for share in (rows + 1) / len(steps.ended)]
