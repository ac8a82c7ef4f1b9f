"""Progress lines of a training run, through the logger `note_rl`."""

import logging
import math
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from note_rl.settings import Budget
from note_rl.training.callbacks import Callback, Logs

_log = logging.getLogger("note_rl")


@contextmanager
def on_the_console(wanted: bool) -> Iterator[None]:
    """For the time of a block, what the library logs goes to stderr where nobody has configured logging.

    Args:
        wanted: False: nothing is changed, and only warnings are seen.
    """
    if not wanted or _log.hasHandlers():
        yield
        return
    handler, level = logging.StreamHandler(), _log.level
    handler.setFormatter(logging.Formatter("%(message)s"))
    _log.addHandler(handler)
    if level == logging.NOTSET:
        _log.setLevel(logging.INFO)
    try:
        yield
    finally:
        _log.removeHandler(handler)
        _log.setLevel(level)


class ProgressLines(Callback):
    """About `num_lines` lines over the whole run: progress, mean return since the last line, loss.

    Args:
        budget: What the run's length is measured by; without an end, there is a line every 100 episodes.
        num_lines: 0 is silent.
    """

    changes_parameters = False

    def __init__(self, budget: Budget, num_lines: int) -> None:
        self._budget = budget
        self._num_lines = num_lines
        self._returns: list[float] = []
        self._num_episodes = 0
        self._printed = 0
        self._loss = math.nan

    def on_episode_end(self, episode: int, logs: Logs) -> None:
        """Keeps the return."""
        self._returns.append(logs["reward"])
        self._num_episodes += 1

    def on_phase_end(self, phase: int, logs: Logs) -> None:
        """Writes a line when the next share of the run is done."""
        self._loss = self._loss if math.isnan(logs["loss"]) else logs["loss"]
        if self._num_lines == 0 or not self._returns:
            return
        steps = int(logs["num_env_steps"])
        if self._budget.total_steps is None and self._budget.episodes is None:
            due = self._num_episodes // 100
        else:
            due = int(self._budget.progress(steps, self._num_episodes) * self._num_lines)
        if due > self._printed:
            self._printed = due
            _log.info(
                "%9d steps  episode %5d  mean return %8.1f  loss %9.4g",
                steps,
                self._num_episodes,
                np.mean(self._returns),
                self._loss,
            )
            self._returns.clear()
