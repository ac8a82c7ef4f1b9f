"""The section about each of several environments."""

from tuner.features.environments.facts import ENVIRONMENTS
from tuner.features.environments.rows import InEnvironment, by_environment, interval_note
from tuner.reporting.elements import note, number_cell, reason, section, table, text_cell
from tuner.reporting.markup import Html, tag
from tuner.results.findings import Estimate
from tuner.results.number_format import format_number
from tuner.results.records import StudySummary

_TITLE = "In each environment"


def environments_section(summary: StudySummary) -> Html:
    """Default and winner in each environment, in returns."""
    rows = by_environment(summary)
    if all(row.winner is None for row in rows):
        return section("environments", _TITLE, reason("There are no finished test runs to compare yet."))
    alone = any(row.own for row in rows)
    heads = [
        "environment",
        "score 0",
        "score 1",
        "default",
        "winner",
        "difference",
        *(["tuned alone"] if alone else []),
    ]
    cells = [_row(summary, row, with_own=alone) for row in rows]
    return section("environments", _TITLE, note(interval_note(summary)), table("environment-table", heads, cells))


def _row(summary: StudySummary, row: InEnvironment, *, with_own: bool) -> Html:
    scale = ENVIRONMENTS.of(summary)[row.name]
    difference = row.difference
    return tag(
        "tr",
        text_cell(row.name),
        number_cell(scale.random, format_number(scale.random)),
        number_cell(scale.good, format_number(scale.good)),
        _estimate_cell(row.default),
        _estimate_cell(row.winner),
        number_cell(None) if difference is None else number_cell(difference.iqm, difference.signed),
        *([_estimate_cell(row.own)] if with_own else []),
    )


def _estimate_cell(found: Estimate | None) -> Html:
    return number_cell(None) if found is None else number_cell(found.iqm, str(found).partition(" (")[0])
