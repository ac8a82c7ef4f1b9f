"""How a single run shows how far it is: a bar in a terminal, a line per evaluation elsewhere."""

import time
from collections.abc import Mapping

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, TaskProgressColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as RichProgress

from tuner.results.wording import format_number, format_seconds

_REDRAW_S = 0.1


class Progress:
    """Told what happens in a run; shows nothing by itself."""

    def started(self) -> None:
        """Everything is built; training begins."""

    def advanced(self, fraction: float) -> None:
        """So much of the budget is done. Called after every training phase."""

    def measured(self, step: int, metrics: Mapping[str, float]) -> None:
        """Training metrics, about once a second."""

    def evaluated(self, fraction: float, mean_return: float) -> None:
        """An evaluation without exploration."""

    def noted(self, text: str) -> None:
        """Something worth knowing."""

    def ended(self) -> None:
        """Nothing more will come."""


class LineProgress(Progress):
    """One line per evaluation, for logs and pipes."""

    def __init__(self, console: Console, total_steps: int) -> None:
        self._console = console
        self._total_steps = total_steps
        self._began = time.perf_counter()
        self._training_return = ""

    def measured(self, step: int, metrics: Mapping[str, float]) -> None:
        """Keeps the newest training return for the next line."""
        if "train/episode_return" in metrics:
            self._training_return = f", {format_number(metrics['train/episode_return'])} while training"

    def evaluated(self, fraction: float, mean_return: float) -> None:
        """Writes the line."""
        steps = f"{round(fraction * self._total_steps):,}"
        elapsed = format_seconds(time.perf_counter() - self._began)
        result = f"mean return {format_number(mean_return)}{self._training_return}"
        self._console.print(f"{fraction:4.0%}  {steps:>11} steps  {result}  ({elapsed})", soft_wrap=True)

    def noted(self, text: str) -> None:
        """Writes it."""
        self._console.print(escape(text), highlight=False, soft_wrap=True)


class BarProgress(Progress):
    """A bar with the newest numbers, redrawn in place."""

    def __init__(self, console: Console, total_steps: int) -> None:
        self._total_steps = total_steps
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

    def started(self) -> None:
        """Draws the bar."""
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
        self._numbers["steps"] = f"{step:,}/{self._total_steps:,}"
        if "train/env_steps_per_s" in metrics:
            self._numbers["speed"] = f"{metrics['train/env_steps_per_s']:,.0f}/s"
        if "train/episode_return" in metrics:
            self._numbers["training"] = f"return {format_number(metrics['train/episode_return'])}"
        self._show()

    def evaluated(self, fraction: float, mean_return: float) -> None:
        """Shows the evaluation, which may be of a point that a long phase of training has passed already."""
        self._fraction = max(fraction, self._fraction)
        self._numbers["steps"] = f"{round(fraction * self._total_steps):,}/{self._total_steps:,}"
        self._numbers["evaluated"] = f"evaluated {format_number(mean_return)}"
        self._bar.update(self._task, completed=self._fraction)
        self._show()

    def noted(self, text: str) -> None:
        """Writes it above the bar."""
        self._bar.console.print(escape(text), highlight=False, soft_wrap=True)

    def ended(self) -> None:
        """Leaves the bar as it is."""
        self._bar.stop()

    def _show(self) -> None:
        self._bar.update(self._task, numbers="  ".join(self._numbers.values()))


def make_progress(console: Console, total_steps: int) -> Progress:
    """A bar in a terminal, lines elsewhere."""
    return BarProgress(console, total_steps) if console.is_terminal else LineProgress(console, total_steps)
