"""The training history: one row per finished episode, as Parquet."""

import logging
import time
from collections.abc import Callable
from dataclasses import astuple, dataclass, fields
from pathlib import Path
from types import ModuleType

from note_rl.support.atomic_files import atomic_target
from tuner.errors import UserError
from tuner.support.interrupts import unbroken

logger = logging.getLogger(__name__)

HISTORY_FILE = "history.parquet"
_MOST_WORDS = 200
WRITE_INTERVAL_S = 10.0


@dataclass(frozen=True, slots=True)
class HistoryRow:
    """One episode.

    Attributes:
        mean_reward: mean return of the newest episodes, this one included, at most `HistoryTracker.window` of them.
        best_reward: highest return of an episode so far.
        episode_reward: return of this episode, undiscounted.
        step: environment steps since the beginning of training, at its own end.
        time: seconds of training by then, those before a resume included.
    """

    mean_reward: float
    best_reward: float
    episode_reward: float
    step: int
    time: float


class HistoryTracker:
    """Keeps the history and writes it to a Parquet file, aside and moved, at most every few seconds and when closed.

    An existing file is continued: mean, best and time go on from it. Rows it has at or beyond the first new step are
    dropped, because training then went back to an older checkpoint (or began anew) and passes these steps again.

    Args:
        folder: of the run; the file is `history.parquet` in it.
        window: number of episodes that `mean_reward` is taken over.
        write_interval_s: shortest time between two writes; what a kill can lose.
        clock: seconds, not going back; replaced in tests.
    """

    def __init__(
        self,
        folder: Path,
        window: int = 100,
        write_interval_s: float = WRITE_INTERVAL_S,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self.path = Path(folder) / HISTORY_FILE
        self.window = window
        self._write_interval_s = write_interval_s
        self._clock = clock
        self._started = self._last_write = clock()
        self._time_before = 0.0
        self._rows = read_history(self.path)
        self._continued = False
        self._unwritten = False

    @property
    def rows(self) -> tuple[HistoryRow, ...]:
        """All rows so far, those of the continued file included."""
        return tuple(self._rows)

    @property
    def newest(self) -> HistoryRow:
        """The last row, of which there is one."""
        return self._rows[-1]

    def __len__(self) -> int:
        return len(self._rows)

    def add_episode(self, reward: float, step: int, at: float | None = None) -> None:
        """Adds a finished episode; writes the file if it is time.

        Args:
            reward: the episode's return.
            step: environment steps done when it ended; not decreasing.
            at: when that was, by the clock; None: now.
        """
        if not self._continued:
            self._continue_before(step)
        now = self._clock()
        newest = [row.episode_reward for row in self._rows[-self.window + 1 :]] if self.window > 1 else []
        best = max(self._rows[-1].best_reward, reward) if self._rows else reward
        mean = (sum(newest) + reward) / (len(newest) + 1)
        elapsed = self._time_before + (now if at is None else at) - self._started
        self._rows.append(HistoryRow(float(mean), float(best), float(reward), int(step), elapsed))
        self._unwritten = True
        if now - self._last_write >= self._write_interval_s:
            self.write()

    def write(self) -> None:
        """Replaces the file by one with all rows. A disk that refuses is a warning, and training goes on."""
        self._last_write = self._clock()
        if not self._unwritten:
            return
        try:
            _write_history(self.path, self._rows)
        except OSError as error:
            logger.warning("%s could not be written: %s", self.path, error)
        self._unwritten = False

    def close(self) -> None:
        """Writes what is not written yet."""
        self.write()

    def _continue_before(self, step: int) -> None:
        """Drops the rows that training is about to pass again, and goes on from the last one left."""
        self._rows = [row for row in self._rows if row.step < step]
        self._time_before = self._rows[-1].time if self._rows else 0.0
        self._continued = True


def read_history(path: Path) -> list[HistoryRow]:
    """The rows of a history file; none if there is no file.

    Raises:
        UserError: the file is not a Parquet file with these columns.
    """
    if not path.exists():
        return []
    pyarrow = _pyarrow()
    try:
        table = pyarrow.parquet.read_table(path)
    except (pyarrow.ArrowException, OSError) as error:
        said = " ".join(str(error).split())[:_MOST_WORDS]
        raise UserError(f"{path} is no readable training history: {said}\nMove it away to begin a new one.") from error
    if not set(_COLUMNS) <= set(table.column_names):
        raise UserError(f"{path} is without some columns of {', '.join(_COLUMNS)}.\nMove it away to begin a new one.")
    kinds = {name: table.schema.field(name).type for name in _COLUMNS}
    wrong = [
        name
        for name, kind in kinds.items()
        if not (pyarrow.types.is_floating(kind) or pyarrow.types.is_integer(kind)) or table[name].null_count
    ]
    if wrong:
        raise UserError(f"{path} has no numbers in {', '.join(wrong)}.\nMove it away to begin a new one.")
    return [HistoryRow(**row) for row in table.select(_COLUMNS).to_pylist()]


def _write_history(path: Path, rows: list[HistoryRow]) -> None:
    pyarrow = _pyarrow()
    columns = dict(zip(_COLUMNS, zip(*(astuple(row) for row in rows), strict=True), strict=True))
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_target(path) as aside:
        pyarrow.parquet.write_table(pyarrow.table(columns), aside)


def _pyarrow() -> ModuleType:
    """The library, which takes a quarter of a second to import: only for who reads or writes a history."""
    with unbroken():
        import pyarrow.parquet
    library: ModuleType = pyarrow
    return library


_COLUMNS = [field.name for field in fields(HistoryRow)]
