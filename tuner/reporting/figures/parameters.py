"""The figures about parameters: which of them matter, and which way."""

import html
import math
from collections.abc import Sequence
from typing import Final

from tuner.reporting.figures.scales import CATEGORY, LOG, ONE_MINUS, AxisScale, as_number
from tuner.reporting.figures.scores import FAILED, FAINT, TRIAL, WINNER, hover_text
from tuner.reporting.thinning import MOST_POINTS, thinned
from tuner.results.records import SCREEN, Scalar, StudySummary
from tuner.results.wording import format_value, short_names
from tuner.trial.messages import JsonDict

MAX_SLICES: Final = 6


def importance_figure(summary: StudySummary) -> JsonDict:
    """Parameters by importance, as shares of the whole, each with what chance alone would reach."""
    ordered = sorted(summary.importances.items(), key=lambda item: item[1])
    total = sum(value for _, value in ordered) or 1.0
    names = short_names(path for path, _ in ordered)
    null = {path: value / total for path, value in summary.importance_null.items()}
    shares = {path: value / total for path, value in ordered}
    labels = [f"{html.escape(names[path])} {share:.0%}" for path, share in shares.items()]
    bars = {
        "type": "bar",
        "orientation": "h",
        "name": "importance",
        "x": list(shares.values()),
        "y": labels,
        "customdata": [html.escape(path) for path in shares],
        "marker": {"color": [TRIAL if share > null.get(path, 0.0) else FAINT for path, share in shares.items()]},
        "hovertemplate": "%{customdata}: %{x:.1%}<extra></extra>",
    }
    marks = {
        "type": "scatter",
        "mode": "markers",
        "name": "chance alone, 1 in 20",
        "x": [null.get(path) for path in shares],
        "y": labels,
        "marker": {"symbol": "line-ns", "size": 18, "line": {"color": FAILED, "width": 3}, "color": FAILED},
        "hovertemplate": "chance alone: %{x:.1%}<extra></extra>",
    }
    x_axis = {"tickformat": ".0%", "rangemode": "tozero", "showgrid": False, "visible": False}
    y_axis = {"showgrid": False, "type": "category"}
    layout = {
        "height": 60 + 30 * len(ordered),
        "margin": {"l": 64, "r": 56, "t": 8, "b": 8},
        "showlegend": bool(null),
        "xaxis": x_axis,
        "yaxis": y_axis,
        "bargap": 0.35,
    }
    return {"data": [bars, marks] if null else [bars], "layout": layout}


def slices_figure(summary: StudySummary) -> JsonDict:
    """Score against value for the most important parameters: which way is better, and how wide the good range is."""
    in_order = dict.fromkeys(path for run in summary.runs for path in run.params)
    known = [path for path in in_order if path in summary.importances]
    paths = sorted(known, key=lambda path: -summary.weights.get(path, 0.0))[:MAX_SLICES]
    names = short_names({path for run in summary.runs for path in run.params} | set(paths))
    every = [run for run in summary.stage(SCREEN) if run.complete]
    complete = thinned(every, MOST_POINTS, kept=[run for run in every if run.label == summary.winner_label])
    layout: JsonDict = {
        "height": 230 * math.ceil(len(paths) / 3) + 50,
        "showlegend": False,
        "grid": {"rows": math.ceil(len(paths) / 3), "columns": min(3, len(paths)), "pattern": "independent"},
    }
    data = []
    for index, path in enumerate(paths, start=1):
        runs = [run for run in complete if path in run.params]
        own = "" if index == 1 else str(index)
        values = [run.params[path] for run in runs]
        scale = AxisScale.of(values, summary.scales.get(path))
        winners = [run.label == summary.winner_label for run in runs]
        data.append(
            {
                "type": "scatter",
                "mode": "markers",
                "x": [_coordinate(value, scale) for value in values],
                "y": [run.score for run in runs],
                "xaxis": f"x{own}",
                "yaxis": f"y{own}",
                "customdata": [hover_text(run) for run in runs],
                "marker": {
                    "color": [WINNER if won else TRIAL for won in winners],
                    "symbol": ["star" if won else "circle" for won in winners],
                    "size": [13 if won else 7 for won in winners],
                },
                "hovertemplate": "%{customdata}<extra></extra>",
            }
        )
        layout[f"xaxis{own}"] = {**_axis(values, scale), "title": {"text": html.escape(names[path])}}
        layout[f"yaxis{own}"] = {"zeroline": False, **({"title": {"text": "score"}} if index % 3 == 1 else {})}
    return {"data": data, "layout": layout}


def _axis(values: Sequence[Scalar], scale: AxisScale) -> JsonDict:
    """Spread as the values were searched."""
    if scale.kind == CATEGORY:
        shown = [_coordinate(choice, scale) for choice in scale.choices]
        return {"type": "category", "categoryorder": "array", "categoryarray": shown}
    if scale.kind == ONE_MINUS:  # Plotly knows no such axis: that of the distance to 1, the other way round
        ticks = _ticks_towards_one(scale)
        return {
            "type": "log",
            "autorange": "reversed",
            "zeroline": False,
            "tickvals": [_distance_to_one(tick) for tick in ticks],
            "ticktext": [format_value(tick) for tick in ticks],
        }
    plain = abs(scale.low) >= 1 and abs(scale.high) < 1e5
    axis: JsonDict = {"zeroline": False, "exponentformat": "none" if plain else "e"}
    if scale.kind == LOG:
        axis |= {"type": "log", **({"dtick": 1} if scale.high / scale.low >= 10 else {})}
    numbers = sorted({as_number(value) for value in values})
    if len(numbers) <= 10 and all(isinstance(number, int) for number in numbers):
        axis |= {"tickvals": numbers, "ticktext": [str(number) for number in numbers]}
    return axis


def _ticks_towards_one(scale: AxisScale) -> list[float]:
    """0.9, 0.99, 0.999, ... as far as they lie among the values; with fewer than two of them the ends."""
    decades = [1.0 - 10.0**-digits for digits in range(1, 13)]
    inside = [decade for decade in decades if scale.low <= decade <= scale.high]
    return inside if len(inside) > 1 else [scale.low, scale.high]


def _distance_to_one(number: float) -> float:
    return float(f"{1.0 - number:.12g}")


def _coordinate(value: Scalar, scale: AxisScale) -> Scalar:
    if scale.kind == CATEGORY:
        return html.escape(format_value(value))
    number = as_number(value)
    return _distance_to_one(number) if scale.kind == ONE_MINUS else number
