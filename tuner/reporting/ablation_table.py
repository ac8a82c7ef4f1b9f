"""An ablation in the terminal: a row for each step of its path."""

from dataclasses import dataclass

from rich import box
from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table
from rich.text import Text

from tuner.results.ablation import Ablation
from tuner.results.findings import Estimate, estimate
from tuner.results.insights.ablation import Effect, percent, step_effects, step_names
from tuner.results.wording import format_number, format_signed, format_value

_STYLES = {Effect.HELPED: "green", Effect.HURT: "red", Effect.NONE: "dim", Effect.NEEDED: "yellow"}


@dataclass(frozen=True)
class AblationTable:
    """What `console.print` shows of an ablation."""

    ablation: Ablation

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        heading = Text(f"From the default configuration to {self.ablation.winner}", style="bold")
        table = Table(box=box.SIMPLE_HEAD, show_edge=False, title=heading, title_justify="left")
        table.add_column("step", justify="right", no_wrap=True)
        table.add_column("parameter")
        table.add_column("from -> to")
        for head in ("score", "gain", "95 % interval", "share"):
            table.add_column(head, justify="right", no_wrap=True)
        table.add_column("")
        table.add_row("0", "default", "", format_number(estimate(self.ablation.default).iqm))
        named = zip(step_effects(self.ablation), step_names(self.ablation), strict=True)
        for number, (one, name) in enumerate(named, start=1):
            moved = "\n".join(f"{format_value(each.before)} -> {format_value(each.after)}" for each in one.changes)
            several = len(one.changes) > 1
            table.add_row(
                str(number),
                Text(name.replace(" and ", "\n").replace(", ", "\n") if several else name),
                Text(moved),
                format_number(one.score.iqm),
                format_signed(one.gain.iqm),
                interval_text(one.gain),
                percent(one.share),
                Text(one.effect.value, style=_STYLES[one.effect]),
            )
        yield table
        yield ""


def interval_text(found: Estimate) -> str:
    """The interval of a difference, with signs."""
    if found.low is None or found.high is None:
        return ""
    return f"[{format_signed(found.low)}, {format_signed(found.high)}]"
