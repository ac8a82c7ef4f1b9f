"""The figures about parameters: which of them matter, and which way."""

import html
import math
from collections.abc import Mapping, Sequence
from typing import Final

from tuner.reporting.downsampling import MOST_POINTS, thinned
from tuner.reporting.figures.style import FAILED, FAINT, TRIAL, WINNER, axis, lines_of, run_markers
from tuner.reporting.figures.value_axis import CATEGORY, LOG, ONE_MINUS, AxisScale, as_number
from tuner.results.number_format import format_value
from tuner.results.records import SCREEN, RunRecord, Scalar, StudySummary
from tuner.trial.messages import JsonDict

MAX_SLICES: Final = 6
_LABEL_CHARS: Final = 28


def importance_figure(summary: StudySummary) -> JsonDict:
    """Parameters by importance, as shares of the whole, each with what chance alone would reach."""
    ordered = sorted(summary.importances.items(), key=lambda item: item[1])
    total = sum(value for _, value in ordered) or 1.0
    shares = {path: value / total for path, value in ordered}
    by_chance = {path: min(value / total, 1.0) for path, value in summary.importance_null.items()}
    labels = [lines_of(f"{path} {share:.0%}", _LABEL_CHARS) for path, share in shares.items()]
    data = [importance_bars(labels, shares, by_chance)]
    if by_chance:
        data.append(chance_marks(labels, [by_chance.get(path) for path in shares]))
    return {"data": data, "layout": {**bars_layout(len(ordered)), "showlegend": bool(by_chance)}}


def bars_layout(num_bars: int) -> JsonDict:
    """Of a figure with a number of bars."""
    return {
        "height": 60 + 30 * num_bars,
        "margin": {"l": 64, "r": 56, "t": 8, "b": 8},
        "showlegend": True,
        "xaxis": {"tickformat": ".0%", "rangemode": "tozero", "showgrid": False, "visible": False},
        "yaxis": {"showgrid": False, "type": "category"},
        "bargap": 0.35,
    }


def importance_bars(labels: Sequence[str], shares: Mapping[str, float], by_chance: Mapping[str, float]) -> JsonDict:
    """Bars that are faint where chance alone reaches as much."""
    return {
        "type": "bar",
        "orientation": "h",
        "name": "importance",
        "x": list(shares.values()),
        "y": list(labels),
        "customdata": [html.escape(path) for path in shares],
        "marker": {"color": [TRIAL if share > by_chance.get(path, 0.0) else FAINT for path, share in shares.items()]},
        "hovertemplate": "%{customdata}: %{x:.1%}<extra></extra>",
    }


def chance_marks(labels: Sequence[str], shares: Sequence[float | None]) -> JsonDict:
    """Marks across bars at what chance alone reaches."""
    return {
        "type": "scatter",
        "mode": "markers",
        "name": "chance alone, 1 in 20",
        "x": list(shares),
        "y": list(labels),
        "marker": {"symbol": "line-ns", "size": 18, "line": {"color": FAILED, "width": 3}, "color": FAILED},
        "hovertemplate": "chance alone: %{x:.1%}<extra></extra>",
    }


def sliced_paths(summary: StudySummary) -> list[str]:
    """The parameters that have a slice: the most important ones."""
    searched = dict.fromkeys(path for run in summary.runs for path in run.params)  # in the order of the space
    known = [path for path in searched if path in summary.importances]
    return sorted(known, key=lambda path: -summary.weights.get(path, 0.0))[:MAX_SLICES]


def slice_figures(summary: StudySummary) -> list[JsonDict]:
    """Score against value, one figure for each of `sliced_paths`: which way is better, and how wide the good range."""
    complete = [run for run in summary.stage(SCREEN) if run.complete]
    drawn = thinned(complete, MOST_POINTS, kept=[run for run in complete if run.label == summary.winner_label])
    figures = []
    for path in sliced_paths(summary):
        runs = [run for run in drawn if path in run.params]
        values = [run.params[path] for run in runs]
        scale = AxisScale.of(values, summary.scales.get(path))
        points = _slice(summary, runs, [coordinate(value, scale) for value in values])
        layout = {
            "height": 230,
            "margin": {"l": 48, "r": 16, "t": 8, "b": 48},
            "showlegend": False,
            "xaxis": {**axis(path), **value_ticks(values, scale)},
            "yaxis": {"zeroline": False},
        }
        figures.append({"data": [points], "layout": layout})
    return figures


def _slice(summary: StudySummary, runs: Sequence[RunRecord], x: Sequence[Scalar]) -> JsonDict:
    """Runs as points at their values of one parameter; the winner is a star."""
    won = [run.label == summary.winner_label for run in runs]
    marker = {
        "color": [WINNER if is_winner else TRIAL for is_winner in won],
        "symbol": ["star" if is_winner else "circle" for is_winner in won],
        "size": [13 if is_winner else 7 for is_winner in won],
    }
    return run_markers(summary, runs, x, [run.score for run in runs], marker)


def value_ticks(values: Sequence[Scalar], scale: AxisScale) -> JsonDict:
    """Settings of an axis that spread it as the values were searched."""
    if scale.kind == CATEGORY:
        shown = [coordinate(choice, scale) for choice in scale.choices]
        return {"type": "category", "categoryorder": "array", "categoryarray": shown}
    if scale.kind == ONE_MINUS:  # Plotly knows no such axis: that of the distance to 1, the other way round
        ticks = _ticks_towards_one(scale)
        return {
            "type": "log",
            "autorange": "reversed",
            "tickvals": [_distance_to_one(tick) for tick in ticks],
            "ticktext": [format_value(tick) for tick in ticks],
        }
    plain = abs(scale.low) >= 1 and abs(scale.high) < 1e5
    drawn: JsonDict = {"exponentformat": "none" if plain else "e"}
    if scale.kind == LOG:
        powers_of_ten = math.floor(math.log10(scale.high)) - math.ceil(math.log10(scale.low)) + 1
        drawn |= {"type": "log", **({"dtick": 1} if powers_of_ten > 1 else _ticks_between(scale))}
    numbers = sorted({as_number(value) for value in values})
    if len(numbers) <= 10 and all(isinstance(number, int) for number in numbers):
        drawn |= {"tickvals": numbers, "ticktext": [str(number) for number in numbers]}
    return drawn


def _ticks_between(scale: AxisScale) -> JsonDict:
    """1, 2 and 5 of each power of ten: Plotly's own ticks would be bare digits, 3 4 5 ... 1 2, on so short an axis."""
    first, last = math.floor(math.log10(scale.low)), math.floor(math.log10(scale.high))
    ticks = [float(f"{digit}e{power}") for power in range(first, last + 1) for digit in (1, 2, 5)]
    inside = [tick for tick in ticks if scale.low <= tick <= scale.high]
    shown = inside if len(inside) > 1 else [scale.low, scale.high]
    return {"tickvals": shown, "ticktext": [format_value(tick) for tick in shown]}


def _ticks_towards_one(scale: AxisScale) -> list[float]:
    """0.9, 0.99, 0.999, ... as far as they lie among the values; with fewer than two of them the ends."""
    decades = [1.0 - 10.0**-digits for digits in range(1, 13)]
    inside = [decade for decade in decades if scale.low <= decade <= scale.high]
    return inside if len(inside) > 1 else [scale.low, scale.high]


def _distance_to_one(number: float) -> float:
    return float(f"{1.0 - number:.12g}")


def coordinate(value: Scalar, scale: AxisScale) -> Scalar:
    """Where a value stands on an axis with `value_ticks`."""
    if scale.kind == CATEGORY:
        return html.escape(format_value(value))
    number = as_number(value)
    return _distance_to_one(number) if scale.kind == ONE_MINUS else number
