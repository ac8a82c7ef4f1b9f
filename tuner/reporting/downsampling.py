"""How much of a large study its page shows: thousands of points are slow to draw and tell no more than hundreds."""

from collections.abc import Iterable, Sequence
from typing import Final

from tuner.results.records import RunRecord

MOST_POINTS: Final = 1000
"""Trials as points in one plot."""

MOST_LINES: Final = 300
"""Trials as lines in one plot."""

MOST_ROWS: Final = 1000
"""Of a table."""

_GOLDEN: Final = 0.6180339887498949


def thinned(runs: Sequence[RunRecord], most: int, kept: Iterable[RunRecord] = ()) -> list[RunRecord]:
    """At most a number of the runs, one out of each of equal parts, so that the share of each kind stays as it is.

    Which one of its part goes by the golden ratio, as runs of one kind may follow each other at equal distances.

    Args:
        runs: in the order in which they are to be thinned.
        most: of them.
        kept: those that must not be missing; they come on top.
    """
    if len(runs) <= most:
        return list(runs)
    chosen = {int((index + index * _GOLDEN % 1.0) * len(runs) / most) for index in range(most)}
    always = {(run.stage, run.number) for run in kept}
    return [run for index, run in enumerate(runs) if index in chosen or (run.stage, run.number) in always]


def drawn_note(total: int, most: int) -> str:
    """Addition to the caption of a figure that shows a selection of the trials; empty if it shows all."""
    if total <= most:
        return ""
    return f" {most:,} of {total:,} trials are drawn, taken evenly, and the winner; trials.csv has all."
