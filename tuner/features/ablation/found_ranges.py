"""How far each parameter of a winner may move before the score falls out of the winner's interval: what runs say."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from tuner.features.ablation.effects import difference, whole_gain
from tuner.features.ablation.facts import Ablation, CheckedRange, CheckedValue
from tuner.results.csv_text import csv_text
from tuner.results.findings import Estimate, estimate
from tuner.results.number_format import counted, format_number, format_value, join_words

LEAST_LOSS: Final = 0.05
"""As much of the gain may be lost in any case: where all seeds of the winner score the same it has no interval."""


def allowed_loss(ablation: Ablation) -> float:
    """How far below the winner a score may be: to the lower end of its interval, or by `LEAST_LOSS` of the gain."""
    winner = estimate(ablation.steps[-1].scores)
    assert winner.low is not None, "there are enough seeds"
    return max(winner.iqm - winner.low, LEAST_LOSS * whole_gain(ablation).iqm, 0.0)


def loss(ablation: Ablation, scores: Sequence[float]) -> Estimate:
    """Some scores minus the winner's on the same seeds, in pairs."""
    return difference(scores, ablation.steps[-1].scores[: len(scores)])


def holds(ablation: Ablation, checked: CheckedValue) -> bool:
    """Whether the score there is within the winner's interval, or above it."""
    return bool(checked.scores) and loss(ablation, checked.scores).iqm >= -allowed_loss(ablation)


@dataclass(frozen=True)
class Edge:
    """Where the range of a parameter ends on one side.

    Attributes:
        holds_at: The farthest value up to which all that were checked hold; the winner's own where none does.
        fails_at: The next one that was checked, where the score falls; None: none does.
        at_end: Whether nothing is left of the search behind `holds_at`.
    """

    holds_at: float
    fails_at: CheckedValue | None
    at_end: bool


@dataclass(frozen=True)
class FoundRange:
    """A parameter's range, by its checks."""

    path: str
    value: float
    below: Edge
    above: Edge


def found_range(ablation: Ablation, checked: CheckedRange) -> FoundRange:
    """The range that the checks of a parameter span."""
    above = sorted((one for one in checked.checked if one.value > checked.value), key=lambda one: one.value)
    below = sorted((one for one in checked.checked if one.value < checked.value), key=lambda one: -one.value)
    edges = (_edge(ablation, checked.value, *side) for side in ((below, checked.low), (above, checked.high)))
    return FoundRange(checked.path, checked.value, *edges)


def _edge(ablation: Ablation, value: float, outwards: Sequence[CheckedValue], end: float) -> Edge:
    held = value
    for one in outwards:
        if not holds(ablation, one):
            return Edge(held, one, at_end=False)
        held = one.value
    return Edge(held, None, at_end=held == end)


def range_sentences(ablation: Ablation) -> tuple[str, ...]:
    """Summary of each parameter's range in sentences; empty where none was checked."""
    if not ablation.ranges:
        return ()
    winner = estimate(ablation.steps[-1].scores)
    first = (
        f"A value holds where the winner with it, all else unchanged, scores no more than "
        f"{format_number(allowed_loss(ablation))} below the winner's {winner} on the same seeds."
    )
    return (first, *(_sentence(ablation, found_range(ablation, one), one.path) for one in ablation.ranges))


def _sentence(ablation: Ablation, found: FoundRange, name: str) -> str:
    below, above = found.below, found.above
    if below.holds_at < above.holds_at:
        where = f"may lie between {format_value(below.holds_at)} and {format_value(above.holds_at)} (checked by runs)"
    else:
        where = f"is known to hold at {format_value(found.value)} only"
    ends = [_fall(ablation, edge.fails_at) for edge in (below, above) if edge.fails_at is not None]
    reached = [format_value(edge.holds_at) for edge in (below, above) if edge.at_end]
    farther = [
        f"{word} {format_value(edge.holds_at)}"
        for word, edge in (("below", below), ("above", above))
        if edge.fails_at is None and not edge.at_end
    ]
    if reached:
        ends.append(f"the search ends at {join_words(reached)}")
    if farther:
        ends.append(f"what lies {join_words(farther)} was not checked")
    return f"{name} {where}; {'; '.join(ends)}."


def _fall(ablation: Ablation, checked: CheckedValue) -> str:
    at = f"at {format_value(checked.value)}"
    if not checked.scores:
        return f"{at} it cannot be run"
    lost = loss(ablation, checked.scores)
    words = f"{at} the score falls by {lost.lost}"
    return words if lost.is_below_zero else f"{words}, which may be chance"


def edge_words(ablation: Ablation, edge: Edge) -> str:
    """The result behind an edge, for a cell of a table."""
    if edge.fails_at is None:
        return "end of the search" if edge.at_end else "not checked"
    if not edge.fails_at.scores:
        return f"{format_value(edge.fails_at.value)}: cannot be run"
    return f"{format_value(edge.fails_at.value)}: {loss(ablation, edge.fails_at.scores).signed}"


def ranges_csv(ablation: Ablation) -> str:
    """Every value that was checked as CSV text, the winner's own among them."""
    whole = ("score", "score_low", "score_high", "difference", "difference_low", "difference_high")
    lines: list[tuple[object, ...]] = [
        ("parameter", "value", "holds", *whole, *(f"seed_{seed}" for seed in ablation.seeds))
    ]
    own = ablation.steps[-1].scores
    for one in ablation.ranges:
        rows = sorted((*one.checked, CheckedValue(one.value, own)), key=lambda checked: checked.value)
        for checked in rows:
            numbers: tuple[float | None, ...] = (None,) * len(whole)
            if checked.scores:
                score, lost = estimate(checked.scores), loss(ablation, checked.scores)
                numbers = (score.iqm, score.low, score.high, lost.iqm, lost.low, lost.high)
            verdict = "yes" if holds(ablation, checked) else "no"
            missing = (None,) * (len(ablation.seeds) - len(checked.scores))
            lines.append((one.path, checked.value, verdict, *numbers, *checked.scores, *missing))
    return csv_text(lines)


def checks_note(ablation: Ablation) -> str:
    """How much was run, and how."""
    num = sum(len(one.scores) for each in ablation.ranges for one in each.checked)
    places = sum(len(each.checked) for each in ablation.ranges)
    return f"{counted(places, 'value')} checked by {counted(num, 'run')}"
