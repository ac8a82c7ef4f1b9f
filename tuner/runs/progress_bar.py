"""How a single run shows how far it is: a bar in a terminal, lines elsewhere, or nothing at all."""

import logging
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, TaskProgressColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as RichProgress

from tuner.errors import require
from tuner.results.number_format import format_number, format_seconds
from tuner.runs.build import build_node
from tuner.trackers.history import HistoryRow

_REDRAW_S = 0.1
# their logs say when they compile; importing them brings a framework
_COMPILING = ("note_rl.learners.keras.update", "note_rl.learners.pytorch.step_graph.compiler")


class Progress:
    """Gets the events of a run; shows nothing by itself."""

    def started(self, total_steps: int | None) -> None:
        """Everything is built; training begins.

        Args:
            total_steps: Its budget of environment steps; None: of a function, which has none and reports a score.
        """

    def advanced(self, fraction: float) -> None:
        """So much of the budget is done. Called after every training phase."""

    def measured(self, step: int, metrics: Mapping[str, float]) -> None:
        """Training metrics, about once a second."""

    def episode_ended(self, row: HistoryRow, number: int) -> None:
        """A training episode has ended, the how many-th of the run."""

    def evaluated(self, step: int, mean_return: float, is_better: bool = False) -> None:
        """An evaluation after a number of environment steps, and whether it is better than all before it."""

    def scored(self, fraction: float, score: float) -> None:
        """A report of a function, which has no steps."""

    def noted(self, text: str) -> None:
        """Something worth knowing."""

    def ended(self) -> None:
        """Nothing more will come."""


class QuietProgress(Progress):
    """Nothing is shown, neither by this nor by anybody else who writes to the same console."""

    def __init__(self, console: Console) -> None:
        console.quiet = True


class LineProgress(Progress):
    """A line per evaluation and, if asked for, one for an interval of training episodes: for logs and pipes.

    Args:
        console: Where to.
        every: Training episodes per line; None: lines are of evaluations only.
        decimals: Of returns; None: about four significant digits.

    Raises:
        UserError: A value out of range.
    """

    def __init__(self, console: Console, every: int | None = None, decimals: int | None = None) -> None:
        require(every is None or every >= 1, "progress.every", every, "at least 1, or null")
        require(decimals is None or 0 <= decimals <= 12, "progress.decimals", decimals, "from 0 to 12, or null")
        self._console = console
        self._total_steps: int | None = None
        self._began = 0.0
        self._every = every
        self._decimals = decimals
        self._training_return = ""
        self._last = (0, 0.0)  # step and time of the last line of an episode

    def started(self, total_steps: int | None) -> None:
        """Keeps the budget, and the time."""
        self._total_steps, self._began = total_steps, time.perf_counter()

    def episode_ended(self, row: HistoryRow, number: int) -> None:
        """Keeps the mean for the next evaluation; writes a line if it is time, with the speed since the one before."""
        self._training_return = f", {self._number(row.mean_reward)} while training"
        if self._every is None or number % self._every:
            return
        step, at = self._last
        speed = (row.step - step) / (row.time - at) if row.time > at else 0.0
        self._last = (row.step, row.time)
        self._console.print(
            f"{format_seconds(row.time):>9}  {row.step:>11,} steps  {number:>6,} episodes  {speed:>7,.0f}/s  "
            f"mean {self._number(row.mean_reward)}  best {self._number(row.best_reward)}",
            soft_wrap=True,
        )

    def evaluated(self, step: int, mean_return: float, is_better: bool = False) -> None:
        """Writes the line."""
        assert self._total_steps is not None
        better = ", the best so far" if is_better else ""
        result = f"mean return {self._number(mean_return)}{better}{self._training_return}"
        self._print(min(step / self._total_steps, 1.0), f"{step:>11,} steps  {result}")

    def scored(self, fraction: float, score: float) -> None:
        """Writes the line."""
        self._print(fraction, f"score {self._number(score)}")

    def noted(self, text: str) -> None:
        """Writes it."""
        self._console.print(escape(text), highlight=False, soft_wrap=True)

    def _print(self, fraction: float, text: str) -> None:
        elapsed = format_seconds(time.perf_counter() - self._began)
        self._console.print(f"{fraction:4.0%}  {text}  ({elapsed})", soft_wrap=True)

    def _number(self, value: float) -> str:
        return format_number(value) if self._decimals is None else f"{value:.{self._decimals}f}"


class BarProgress(Progress):
    """A bar with the newest numbers, redrawn in place."""

    def __init__(self, console: Console) -> None:
        self._total_steps: int | None = None
        self._step = 0
        self._fraction = self._last_drawn = 0.0
        self._speed = self._training_return = self._evaluation = ""
        self._bar = RichProgress(
            BarColumn(bar_width=30),
            TaskProgressColumn(),
            TextColumn("{task.fields[numbers]}"),
            TimeRemainingColumn(compact=True),
            console=console,
        )
        self._task = self._bar.add_task("", total=1.0, numbers="building")

    def started(self, total_steps: int | None) -> None:
        """Draws the bar."""
        self._total_steps = total_steps
        self._bar.update(self._task, numbers="training")
        self._bar.start()

    def advanced(self, fraction: float) -> None:
        """Moves the bar, ten times a second at most."""
        self._move(fraction, round(fraction * (self._total_steps or 0)))
        if time.perf_counter() - self._last_drawn >= _REDRAW_S:
            self._draw()

    def measured(self, step: int, metrics: Mapping[str, float]) -> None:
        """Keeps the speed."""
        if "train/env_steps_per_s" in metrics:
            self._speed = f"{metrics['train/env_steps_per_s']:,.0f}/s"

    def episode_ended(self, row: HistoryRow, number: int) -> None:
        """Keeps the mean."""
        self._training_return = f"return {format_number(row.mean_reward)}"

    def evaluated(self, step: int, mean_return: float, is_better: bool = False) -> None:
        """Shows the evaluation."""
        assert self._total_steps is not None
        self._move(min(step / self._total_steps, 1.0), step)
        self._evaluation = f"evaluated {format_number(mean_return)}"
        self._draw()

    def scored(self, fraction: float, score: float) -> None:
        """Shows the score."""
        self._move(fraction, 0)
        self._evaluation = f"score {format_number(score)}"
        self._draw()

    def noted(self, text: str) -> None:
        """Writes it above the bar."""
        self._bar.console.print(escape(text), highlight=False, soft_wrap=True)

    def ended(self) -> None:
        """Leaves the bar as it is at the end."""
        self._draw()
        self._bar.stop()

    def _move(self, fraction: float, step: int) -> None:
        self._fraction, self._step = max(fraction, self._fraction), max(step, self._step)

    def _draw(self) -> None:
        """Steps and mean return of this moment, the newest speed, the last evaluation."""
        self._last_drawn = time.perf_counter()
        steps = f"{self._step:,}/{self._total_steps:,}" if self._total_steps is not None and self._step else ""
        numbers = filter(None, (steps, self._speed, self._training_return, self._evaluation))
        self._bar.update(self._task, completed=self._fraction, numbers="  ".join(numbers) or "training")


@contextmanager
def noting_compilation(progress: Progress) -> Iterator[None]:
    """Shows, once, that an update is being compiled, as nothing moves meanwhile."""
    loggers = [logging.getLogger(name) for name in _COMPILING]
    told: list[logging.LogRecord] = []

    def note(record: logging.LogRecord) -> bool:
        """Shows the record; records shown here are not printed elsewhere."""
        if record.levelno != logging.INFO:
            return True
        if not told:
            told.append(record)
            progress.noted(record.getMessage())
        return False

    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.INFO)
        logger.addFilter(note)
    try:
        yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.removeFilter(note)
            logger.setLevel(level)


def bar_or_lines(console: Console, every: int | None = None, decimals: int | None = None) -> Progress:
    """A bar in a terminal, unless lines for episodes are asked for; lines elsewhere. See `LineProgress`."""
    lines = LineProgress(console, every, decimals)
    return BarProgress(console) if console.is_terminal and every is None and decimals is None else lines


def make_progress(section: Mapping[str, Any] | None, console: Console) -> Progress:
    """Makes the display that a `progress` section describes.

    Args:
        section: Resolved; None: there is none.
        console: Where it is shown.

    Raises:
        UserError: A value out of range.
    """
    if not section:
        return bar_or_lines(console)
    progress: Progress = build_node("progress", {**section, "_partial_": True})(console)
    return progress
