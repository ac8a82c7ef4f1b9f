"""The figures about parameters: which of them matter, and which way."""

import html
import math
from collections.abc import Sequence
from typing import Final

from tuner.records import SCREEN, Scalar, StudySummary
from tuner.reporting.figures import FAILED, FAINT, TRIAL, WINNER, finite, hover_text
from tuner.trial.messages import JsonDict
from tuner.wording import short_names

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
    paths = sorted(summary.importances, key=lambda path: -summary.importances[path])[:MAX_SLICES]
    names = short_names({path for run in summary.runs for path in run.params} | set(paths))
    complete = [run for run in summary.stage(SCREEN) if run.complete]
    layout: JsonDict = {
        "height": 230 * math.ceil(len(paths) / 3) + 50,
        "showlegend": False,
        "grid": {"rows": math.ceil(len(paths) / 3), "columns": min(3, len(paths)), "pattern": "independent"},
    }
    data = []
    for index, path in enumerate(paths, start=1):
        runs = [run for run in complete if path in run.params]
        own = "" if index == 1 else str(index)
        winners = [run.label == summary.winner_label for run in runs]
        data.append(
            {
                "type": "scatter",
                "mode": "markers",
                "x": [_coordinate(run.params[path]) for run in runs],
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
        layout[f"xaxis{own}"] = {
            **_axis([run.params[path] for run in runs]),
            "title": {"text": html.escape(names[path])},
        }
        layout[f"yaxis{own}"] = {"zeroline": False, **({"title": {"text": "score"}} if index % 3 == 1 else {})}
    return {"data": data, "layout": layout}


def _axis(values: Sequence[Scalar]) -> JsonDict:
    """Logarithmic where the values span a factor of 10 or more, categories where they are no numbers."""
    numbers = sorted({value for value in values if isinstance(value, int | float) and not isinstance(value, bool)})
    if not numbers or any(isinstance(value, bool | str) or value is None for value in values):
        return {"type": "category"}
    plain = abs(numbers[0]) >= 1 and abs(numbers[-1]) < 1e5
    axis: JsonDict = {"zeroline": False, "exponentformat": "none" if plain else "e"}
    if numbers[0] > 0 and numbers[-1] / numbers[0] >= 10:
        axis |= {"type": "log", "dtick": 1}
    if len(numbers) <= 10 and all(isinstance(number, int) for number in numbers):
        axis |= {"tickvals": numbers, "ticktext": [str(number) for number in numbers]}
    return axis


def _coordinate(value: Scalar) -> Scalar:
    if isinstance(value, float):
        return finite(value)
    return value if isinstance(value, int) and not isinstance(value, bool) else html.escape(str(value))
