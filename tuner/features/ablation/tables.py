"""An ablation in the terminal: a row for each step of its path, and for each parameter that was moved."""

from dataclasses import dataclass

from rich import box
from rich.console import Console, ConsoleOptions, RenderResult
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from tuner.features.ablation.effects import Effect, change_texts, percent, step_effects
from tuner.features.ablation.facts import Ablation
from tuner.features.ablation.found_ranges import edge_words, found_range
from tuner.results.findings import estimate
from tuner.results.number_format import format_value

_VALUES_BELOW = "\n  "
_STYLES = {
    Effect.HELPED: "green",
    Effect.HURT: "red",
    Effect.NONE: "dim",
    Effect.NEEDED: "yellow",
    Effect.UNCLEAR: "yellow",
}


@dataclass(frozen=True)
class AblationTable:
    """An ablation as a table.

    In a narrow terminal it has no last column, which the sentences repeat, and values stand below their parameter.
    """

    ablation: Ablation

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        widths = ((True, " "), (False, " "), (False, _VALUES_BELOW))
        tables = (self._table(with_effect, between) for with_effect, between in widths)
        yield next((one for one in tables if _fits(one, console, options)), self._table(False, _VALUES_BELOW))
        yield ""

    def _table(self, with_effect: bool, between: str) -> Table:
        """The table with or without the column of effects, and with this text between a parameter and its values."""
        heading = Text(f"From the default configuration to {self.ablation.winner}", style="bold")
        table = Table(box=box.SIMPLE_HEAD, show_edge=False, title=heading, title_justify="left")
        table.add_column("step", justify="right", no_wrap=True)
        table.add_column("change", overflow="fold")
        for head in ("score", "gain [95 % interval]", "share"):
            table.add_column(head, justify="right", no_wrap=True)
        if with_effect:
            table.add_column("")
        table.add_row("0", "default", estimate(self.ablation.default).mean)
        named = zip(step_effects(self.ablation), change_texts(self.ablation), strict=True)
        for number, (one, changes) in enumerate(named, start=1):
            effect = [Text(one.effect.value, style=_STYLES[one.effect])] if with_effect else []
            numbers = (one.score.mean, Text(one.gain.signed), percent(one.share))
            table.add_row(
                str(number), Text("\n".join(change.replace(" ", between, 1) for change in changes)), *numbers, *effect
            )
        return table


def _fits(table: Table, console: Console, options: ConsoleOptions) -> bool:
    """Whether a column of the terminal is left: some wrap a line that fills them."""
    return Measurement.get(console, options, table).maximum < options.max_width


@dataclass(frozen=True)
class RangesTable:
    """The ranges of an ablation as a table."""

    ablation: Ablation

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        heading = Text(f"How far {self.ablation.winner} may move, one parameter at a time", style="bold")
        table = Table(box=box.SIMPLE_HEAD, show_edge=False, title=heading, title_justify="left")
        table.add_column("parameter", overflow="fold")
        for head in ("winner", "holds from", "to"):
            table.add_column(head, justify="right", no_wrap=True)
        for head in ("next below [95 % interval]", "next above [95 % interval]"):
            table.add_column(head, justify="right", overflow="fold")
        for one in self.ablation.ranges:
            found = found_range(self.ablation, one)
            ends = [format_value(value) for value in (found.value, found.below.holds_at, found.above.holds_at)]
            table.add_row(
                Text(one.path),
                *ends,
                Text(edge_words(self.ablation, found.below)),
                Text(edge_words(self.ablation, found.above)),
            )
        yield table
        yield ""
