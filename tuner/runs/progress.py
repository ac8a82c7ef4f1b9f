"""How a single run shows how far it is: a bar in a terminal, lines elsewhere, or nothing at all."""

import time
from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, TaskProgressColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as RichProgress

from tuner.errors import require
from tuner.results.wording import format_number, format_seconds
from tuner.runs.build import build_node
from tuner.trackers.history import HistoryRow

_REDRAW_S = 0.1


class Progress:
    """Told what happens in a run; shows nothing by itself."""

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

    def evaluated(self, fraction: float, mean_return: float, is_better: bool = False) -> None:
        """An evaluation, and whether it is better than all before it."""

    def noted(self, text: str) -> None:
        """Something worth knowing."""

    def ended(self) -> None:
        """Nothing more will come."""


class QuietProgress(Progress):
    """Nothing is shown, neither by this nor by anybody else who writes to the same console."""

    def __init__(self, console: Console) -> None:
        console.quiet = True


class LineProgress(Progress):
    """A line per evaluation and, if asked for, one every so many training episodes: for logs and pipes.

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

    def measured(self, step: int, metrics: Mapping[str, float]) -> None:
        """Keeps the newest training return for the next line."""
        if "train/episode_return" in metrics:
            self._training_return = f", {self._number(metrics['train/episode_return'])} while training"

    def episode_ended(self, row: HistoryRow, number: int) -> None:
        """Writes a line if it is time: of the whole run, the speed since the line before."""
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

    def evaluated(self, fraction: float, mean_return: float, is_better: bool = False) -> None:
        """Writes the line."""
        what, steps = "score", ""
        if self._total_steps is not None:
            what, steps = "mean return", f"{round(fraction * self._total_steps):>11,} steps  "
        elapsed = format_seconds(time.perf_counter() - self._began)
        better = ", the best so far" if is_better else ""
        result = f"{what} {self._number(mean_return)}{better}{self._training_return}"
        self._console.print(f"{fraction:4.0%}  {steps}{result}  ({elapsed})", soft_wrap=True)

    def noted(self, text: str) -> None:
        """Writes it."""
        self._console.print(escape(text), highlight=False, soft_wrap=True)

    def _number(self, value: float) -> str:
        return format_number(value) if self._decimals is None else f"{value:.{self._decimals}f}"


class BarProgress(Progress):
    """A bar with the newest numbers, redrawn in place."""

    def __init__(self, console: Console) -> None:
        self._total_steps: int | None = None
        self._numbers: dict[str, str] = {}
        self._last_drawn = self._fraction = 0.0
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
        self._fraction, now = max(fraction, self._fraction), time.perf_counter()
        if now - self._last_drawn >= _REDRAW_S:
            self._last_drawn = now
            self._bar.update(self._task, completed=self._fraction)

    def measured(self, step: int, metrics: Mapping[str, float]) -> None:
        """Shows speed and training return."""
        self._show_steps(step)
        if "train/env_steps_per_s" in metrics:
            self._numbers["speed"] = f"{metrics['train/env_steps_per_s']:,.0f}/s"
        if "train/episode_return" in metrics:
            self._numbers["training"] = f"return {format_number(metrics['train/episode_return'])}"
        self._show()

    def evaluated(self, fraction: float, mean_return: float, is_better: bool = False) -> None:
        """Shows the evaluation, which may be of a point that a long phase of training has passed already."""
        self._fraction = max(fraction, self._fraction)
        self._show_steps(round(fraction * (self._total_steps or 0)))
        what = "score" if self._total_steps is None else "evaluated"
        self._numbers["evaluated"] = f"{what} {format_number(mean_return)}"
        self._bar.update(self._task, completed=self._fraction)
        self._show()

    def noted(self, text: str) -> None:
        """Writes it above the bar."""
        self._bar.console.print(escape(text), highlight=False, soft_wrap=True)

    def ended(self) -> None:
        """Leaves the bar as it is."""
        self._bar.stop()

    def _show_steps(self, step: int) -> None:
        if self._total_steps is not None:
            self._numbers["steps"] = f"{step:,}/{self._total_steps:,}"

    def _show(self) -> None:
        self._bar.update(self._task, numbers="  ".join(self._numbers.values()))


def bar_or_lines(console: Console, every: int | None = None, decimals: int | None = None) -> Progress:
    """A bar in a terminal, unless lines for episodes are asked for; lines elsewhere. See `LineProgress`."""
    lines = LineProgress(console, every, decimals)
    return BarProgress(console) if console.is_terminal and every is None and decimals is None else lines


def make_progress(section: Mapping[str, Any] | None, console: Console) -> Progress:
    """What a `progress` section describes.

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
