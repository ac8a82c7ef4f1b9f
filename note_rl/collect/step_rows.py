"""Steps as they happen, one row for all environments, and as they are handed on, [T, E]."""

import numpy as np

from note_rl.types import (
    ACTION_MASK,
    BEHAVIOUR,
    EPISODE_START,
    IMPORTANCE_RATIO,
    NEXT_ACTION_MASK,
    STATE_BEFORE,
    STEP_COLUMNS,
    Array,
    BoolArray,
    Steps,
)

# The columns of steps in their order (`STEP_COLUMNS`), log_prob, and those of `_EXTRAS`: [E, ...] each
Row = tuple[Array | None, ...]
_EXTRAS = ("achieved_goal", BEHAVIOUR, IMPORTANCE_RATIO, ACTION_MASK, NEXT_ACTION_MASK, STATE_BEFORE, EPISODE_START)


class Rows:
    """Rows of steps in E environments, which may have missed some of them.

    An environment that begins an episode in a step of its own (see `Environments.alive`) has a gap there. Its later
    steps then move up, so each column holds the consecutive steps of one environment and every row is full. What the
    others are ahead stays here until the slowest has caught up: as many rows as it has had more episodes than they, so
    these are a little older than the rest when they are handed on.
    """

    def __init__(self, num_envs: int) -> None:
        self.num_envs = num_envs
        self._rows: list[Row] = []
        self._alive: list[BoolArray | None] = []
        self._missed = np.zeros(num_envs, np.int64)  # gaps in the rows kept here, per environment
        self._most_missed = 0

    def __len__(self) -> int:
        return len(self._rows) - self._most_missed

    def add(self, row: Row, alive: BoolArray | None) -> None:
        """Adds one step.

        Args:
            row: Its columns.
            alive: Which environments took it; None: all. [E]
        """
        self._rows.append(row)
        self._alive.append(alive)
        if alive is not None:
            self._missed += ~alive
            self._most_missed = int(self._missed.max())

    def take(self) -> Steps:
        """All full rows, which are no longer kept here."""
        num_rows = len(self)
        if len(self._rows) == 1:
            columns = [None if part is None else part[None] for part in self._rows[0]]
        else:
            columns = [self._column(index) for index in range(len(self._rows[0]))]
        if self._missed.any():
            columns = self._without_gaps(columns, num_rows)
        else:
            self._rows, self._alive = [], []
        return _as_steps(columns)

    def _column(self, index: int) -> Array | None:
        parts = [part for row in self._rows if (part := row[index]) is not None]
        return np.concatenate(parts).reshape(len(parts), *parts[0].shape) if parts else None

    def _without_gaps(self, columns: list[Array | None], num_rows: int) -> list[Array | None]:
        """The first steps of each environment, a number of them; the others are kept."""
        everyone = np.ones(self.num_envs, np.bool_)
        alive = np.stack([everyone if one is None else one for one in self._alive])  # [P, E]
        index = (np.argsort(~alive, axis=0, kind="stable")[:num_rows], np.arange(self.num_envs))
        alive[index] = False
        kept = np.flatnonzero(alive.any(axis=1))
        self._rows = [self._rows[row] for row in kept]
        self._alive = [alive[row] for row in kept]
        self._missed = (~alive[kept]).sum(axis=0)
        self._most_missed = int(self._missed.max())
        return [None if column is None else column[index] for column in columns]


def _as_steps(columns: list[Array | None]) -> Steps:
    always = (column for column in columns[: len(STEP_COLUMNS)] if column is not None)
    log_prob, *further = columns[len(STEP_COLUMNS) :]
    extras = {name: column for name, column in zip(_EXTRAS, further, strict=True) if column is not None}
    for name in (BEHAVIOUR, IMPORTANCE_RATIO):
        if name in extras:
            extras[name] = extras[name].astype(np.float32)
    return Steps(
        **dict(zip(STEP_COLUMNS, always, strict=True)),
        log_prob=None if log_prob is None else log_prob.astype(np.float32),
        extras=extras,
    )
