"""The study in the terminal: a live table while it runs, and the tables at its end.

Names and reasons come from users and are never read as rich's markup: everything is a `Text`.
"""

import time
from collections.abc import Callable, Sequence
from types import TracebackType

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from tuner.reporting.final import FinalTable
from tuner.reporting.study_progress import RunningRun, StudyProgress
from tuner.results.number_format import format_number, format_seconds
from tuner.support.console import PlainConsole

__all__ = ["FinalTable", "LiveTable", "progress_line", "render_progress"]

REDRAW_INTERVAL_S = 0.25
LINE_INTERVAL_S = 15.0
_BAR_WIDTH = 24


class LiveTable:
    """Shows a study while it runs: redrawn in place in a terminal, now and then a line elsewhere.

    Used as a context manager. It has no thread of its own: what is shown is what `update` was given last.

    Args:
        console: where to; standard output by default.
        line_interval_s: shortest time between two lines where the output is no terminal.
        clock: seconds; replaced in tests.
    """

    def __init__(
        self,
        console: Console | None = None,
        line_interval_s: float = LINE_INTERVAL_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._console = console or PlainConsole()
        self._line_interval_s = line_interval_s
        self._clock = clock
        self._live: Live | None = None
        self._newest: StudyProgress | None = None
        self._shown: StudyProgress | None = None
        self._shown_at = 0.0

    def __enter__(self) -> "LiveTable":
        if self._console.is_terminal:
            self._live = Live(console=self._console, auto_refresh=False, transient=True)
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None
        elif self._newest is not None and self._newest is not self._shown:
            self._print_line(self._newest)

    def update(self, progress: StudyProgress) -> None:
        """Shows the newest state. Cheap enough to be called at every event: most calls draw nothing."""
        self._newest = progress
        elapsed = self._clock() - self._shown_at
        new_stage = self._shown is None or self._shown.stage != progress.stage
        if self._live is not None:
            if new_stage or elapsed >= REDRAW_INTERVAL_S:
                self._live.update(render_progress(progress), refresh=True)
                self._note_shown(progress)
        elif new_stage or (elapsed >= self._line_interval_s and _counts(progress) != _counts(self._shown)):
            self._print_line(progress)

    def note(self, text: str) -> None:
        """Prints a line that stays: why pruning is off, that a trial failed."""
        self._console.print(Text(text))

    def _print_line(self, progress: StudyProgress) -> None:
        self._console.print(Text(progress_line(progress)), soft_wrap=True)
        self._note_shown(progress)

    def _note_shown(self, progress: StudyProgress) -> None:
        self._shown, self._shown_at = progress, self._clock()


def progress_line(progress: StudyProgress) -> str:
    """One line for a log: `screen 13/20: 9 complete, 2 running, 3 pruned, 1 failed (1 diverged); best ...`."""
    left = _time_left(progress, "; ")
    return (
        f"{progress.stage} {progress.num_ended}/{progress.num_total}: {progress.num_complete} complete, "
        f"{len(progress.running)} running, {progress.num_pruned} pruned, failed {progress.failures_text}; "
        f"best {progress.best_text}{left}"
    )


def _time_left(progress: StudyProgress, before: str) -> str:
    """The remaining time in words; empty where it is not known, or less than a second."""
    seconds = progress.seconds_left
    return "" if seconds is None or round(seconds) < 1 else f"{before}about {format_seconds(seconds)} left"


def render_progress(progress: StudyProgress) -> RenderableType:
    """The live table at one moment."""
    left = _time_left(progress, ", ")
    counts = Text.assemble(
        (f"{progress.num_complete} complete", "green"),
        f"  {len(progress.running)} running  ",
        (f"{progress.num_pruned} pruned", "yellow" if progress.num_pruned else ""),
        "  ",
        (f"failed {progress.failures_text}", "red" if progress.failures else ""),
    )
    stage = Table.grid(padding=(0, 2))
    stage.add_row(
        Text(progress.stage, style="bold"),
        _bar(progress.num_ended, progress.num_total),
        Text(f"{progress.num_ended}/{progress.num_total}"),
        Text(f"{format_seconds(progress.seconds)}{left}", style="dim"),
    )
    best = Text.assemble("best  ", (progress.best_text, "bold" if progress.best else "dim"))
    title = Text(progress.title, style="bold", no_wrap=True, overflow="ellipsis")
    return Group(title, stage, counts, best, *([_running_table(progress.running)] if progress.running else []))


def _running_table(running: Sequence[RunningRun]) -> Table:
    table = Table.grid(padding=(0, 2))
    for run in running:
        done = "starting" if run.progress is None else f"{run.progress:4.0%}"
        value = "" if run.value is None else f"last {format_number(run.value)}"
        table.add_row(
            Text(f"  {run.label}", overflow="ellipsis", no_wrap=True),
            _bar(run.progress or 0.0, 1.0),
            Text(done, justify="right"),
            Text(value),
            Text(format_seconds(run.seconds), style="dim"),
            Text(f"on {run.host}" if run.host else "", style="dim", overflow="ellipsis", no_wrap=True),
        )
    return table


def _bar(completed: float, total: float) -> ProgressBar:
    return ProgressBar(total or 1.0, completed, width=_BAR_WIDTH, complete_style="cyan", finished_style="green")


def _counts(progress: StudyProgress | None) -> tuple[object, ...]:
    if progress is None:
        return ()
    return (progress.stage, progress.num_ended, progress.best, tuple(progress.failures.items()))
