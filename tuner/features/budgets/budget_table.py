"""Several budgets in the terminal: a row for each."""

from collections.abc import Sequence
from dataclasses import dataclass

from rich import box
from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table
from rich.text import Text

from tuner.features.budgets.budget_points import BudgetPoint, gain_words
from tuner.results.number_format import format_seconds


@dataclass(frozen=True)
class BudgetTable:
    """Several budgets as a table."""

    points: Sequence[BudgetPoint]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        heading = Text("Budgets, each with the configuration that its study advises", style="bold")
        table = Table(box=box.SIMPLE_HEAD, show_edge=False, title=heading, title_justify="left")
        for head in ("steps", "a run"):
            table.add_column(head, justify="right", no_wrap=True)
        table.add_column("advised", no_wrap=True)
        for head in ("score", "default", "gain"):
            table.add_column(head, justify="right", overflow="fold")
        for point in self.points:
            style = "" if point.pays else "dim"
            table.add_row(
                f"{point.steps:,}",
                format_seconds(point.seconds),
                Text(point.label),
                Text(_short(str(point.score))),
                Text("" if point.default is None else _short(str(point.default))),
                Text(gain_words(point)),
                style=style,
            )
        yield table


def _short(estimate: str) -> str:
    """With its interval, if it has one: single scores would fill the terminal."""
    return estimate.partition(" (")[0]
