"""How far parameters may move, in the terminal: a row for each."""

from dataclasses import dataclass

from rich import box
from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table
from rich.text import Text

from tuner.results.ablation import Ablation
from tuner.results.insights.ranges import edge_words, found_range
from tuner.results.wording import format_value, short_names


@dataclass(frozen=True)
class RangesTable:
    """What `console.print` shows of the ranges of an ablation."""

    ablation: Ablation

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        heading = Text(f"How far {self.ablation.winner} may move, one parameter at a time", style="bold")
        table = Table(box=box.SIMPLE_HEAD, show_edge=False, title=heading, title_justify="left")
        table.add_column("parameter", overflow="fold")
        for head in ("winner", "holds from", "to"):
            table.add_column(head, justify="right", no_wrap=True)
        for head in ("next below [95 % interval]", "next above [95 % interval]"):
            table.add_column(head, justify="right", overflow="fold")
        names = short_names(one.path for one in self.ablation.ranges)
        for one in self.ablation.ranges:
            found = found_range(self.ablation, one)
            ends = [format_value(value) for value in (found.value, found.below.holds_at, found.above.holds_at)]
            table.add_row(
                Text(names[one.path]),
                *ends,
                Text(edge_words(self.ablation, found.below)),
                Text(edge_words(self.ablation, found.above)),
            )
        yield table
        yield ""
