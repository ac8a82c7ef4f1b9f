"""A study of several environments in the terminal: a row for each."""

from rich import box
from rich.table import Table
from rich.text import Text

from tuner.results.findings import Estimate
from tuner.results.insights.environments import by_environment
from tuner.results.records import StudySummary


def environment_table(summary: StudySummary) -> Table:
    """Returns on test seeds: default, winner and difference; where there are, winners of one environment alone."""
    rows = by_environment(summary)
    heading = Text("In each environment, in returns, on test seeds", style="bold")
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, title=heading, title_justify="left")
    table.add_column("environment", no_wrap=True)
    heads = ["default", "winner", "difference", *(["tuned alone"] if any(row.own for row in rows) else [])]
    for head in heads:
        table.add_column(head, no_wrap=True)
    for row in rows:
        difference = "" if row.difference is None else row.difference.signed
        cells = [_told(row.default), _told(row.winner), difference, _told(row.own)]
        table.add_row(Text(row.name), *map(Text, cells[: len(heads)]))
    return table


def _told(found: Estimate | None) -> str:
    """With its interval, if it has one: single scores would fill the terminal."""
    return "" if found is None else str(found).partition(" (")[0]
