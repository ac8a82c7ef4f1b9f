"""How long an agent has trained, over all attempts of its run: wall time without evaluations and all else beside it."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter

from tuner.support.text_files import atomic_write, read_by_steps
from tuner.trial.folder import read_times

_ON_GRID = 1e-9
_KEPT = 2  # checkpoints: the one that is there, if the next one is never written


class TrainingClock:
    """Seconds of training until now, kept beside the checkpoints so that a part that is done again counts once.

    Args:
        path: Of the file.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._known: dict[int, float] = {}
        self._spent = 0.0
        self._since: float | None = None

    @property
    def seconds(self) -> float:
        """Spent so far."""
        return self._spent if self._since is None else self._spent + perf_counter() - self._since

    def go(self) -> None:
        """Training begins, or goes on."""
        self._since = perf_counter()

    def halt(self) -> None:
        """Training ends, or is interrupted."""
        self._spent, self._since = self.seconds, None

    @contextmanager
    def halted(self) -> Iterator[None]:
        """Stops the clock for a block, as the work there is no training."""
        running = self._since is not None
        self.halt()
        try:
            yield
        finally:
            if running:
                self.go()

    def move(self, path: Path) -> None:
        """Goes on in another file, where nothing is known of earlier checkpoints."""
        self._path, self._known = path, {}

    def restore(self, num_env_steps: int, fraction: float) -> None:
        """Goes on from a checkpoint.

        Args:
            num_env_steps: Of the agent in it.
            fraction: Of the budget, done by then: a checkpoint that another run left has the time of the last report.
        """
        self._known = read_by_steps(self._path)
        reported = [seconds for step, seconds in read_times(self._path.parent).items() if step <= fraction + _ON_GRID]
        self._spent = self._known.get(num_env_steps, max(reported, default=0.0))

    def write(self, num_env_steps: int) -> None:
        """Notes the time of a checkpoint that is about to be written."""
        earlier = sorted(steps for steps in self._known if steps < num_env_steps)[1 - _KEPT :]
        self._known = {**{steps: self._known[steps] for steps in earlier}, num_env_steps: self.seconds}
        atomic_write(self._path, json.dumps(self._known))
