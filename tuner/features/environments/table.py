"""A study of several environments in the terminal: a row for each."""

from rich import box
from rich.console import Group
from rich.table import Table
from rich.text import Text

from tuner.features.environments.facts import ENVIRONMENTS
from tuner.features.environments.rows import by_environment
from tuner.results.findings import Estimate
from tuner.results.number_format import format_number
from tuner.results.records import StudySummary


def environment_table(summary: StudySummary) -> Group:
    """Returns on test seeds: default, winner and difference; where there are, winners of one environment alone.

    Beside them the returns that are score 0 and score 1.
    """
    rows = by_environment(summary)
    heading = Text("In each environment, in returns, on test seeds", style="bold")
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, title=heading, title_justify="left")
    table.add_column("environment", no_wrap=True)
    for end in ("score 0", "score 1"):
        table.add_column(end, justify="right", no_wrap=True)
    heads = ["default", "winner", "difference", *(["tuned alone"] if any(row.own for row in rows) else [])]
    for head in heads:
        table.add_column(head, no_wrap=True)
    for row in rows:
        difference = "" if row.difference is None else row.difference.signed
        cells = [_told(row.default), _told(row.winner), difference, _told(row.own)]
        scale = ENVIRONMENTS.of(summary)[row.name]
        ends = map(format_number, (scale.random, scale.good))
        table.add_row(Text(row.name), *map(Text, (*ends, *cells[: len(heads)])))
    return Group(table, Text(" score 0: a random policy, score 1: a good one", style="dim"))


def _told(found: Estimate | None) -> str:
    """With its interval, if it has one: single scores would fill the terminal."""
    return "" if found is None else str(found).partition(" (")[0]
