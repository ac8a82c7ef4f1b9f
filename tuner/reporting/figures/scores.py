"""The figures of the page, as Plotly's JSON: data and layout, no drawing.

Colours are names of CSS variables, "var(--winner)"; page.js replaces them by their values in the reader's colour
scheme. Labels are escaped, because Plotly reads a part of HTML in them.
"""

import html
import math
from collections.abc import Iterable, Sequence
from typing import Final

from tuner.reporting.thinning import MOST_LINES, MOST_POINTS, thinned
from tuner.results.findings import Estimate, Verdict
from tuner.results.records import SCREEN, TEST, RunRecord, StudySummary
from tuner.results.wording import describe_params, format_number
from tuner.trial.messages import JsonDict, Outcome

WINNER: Final = "var(--winner)"
DEFAULT: Final = "var(--default)"
TRIAL: Final = "var(--trial)"
FAILED: Final = "var(--failed)"
FAINT: Final = "var(--faint)"


def comparison_figure(summary: StudySummary, found: Verdict) -> JsonDict | None:
    """Test scores of the winner and of the default configuration: every seed, IQM and interval."""
    rows = [(summary.default_label, found.default, DEFAULT)]
    if summary.winner_label not in (None, summary.default_label):
        rows.append((str(summary.winner_label), found.winner, WINNER))
    points = [point for _, estimate, _ in rows if estimate is not None for point in estimate.points]
    if not points:
        return None
    margin = 0.12 * (max(points) - min(points)) or 1.0
    low, high = min(points) - margin, max(points) + margin
    data: list[JsonDict] = []
    for row, (label, estimate, color) in enumerate(rows):
        if estimate is not None:
            place = (estimate.iqm - low) / (high - low)
            side = "left" if place > 0.7 else "right" if place < 0.3 else "center"  # inwards: plots may be narrow
            data += _strip(row, label, estimate, color, side)
    layout = {
        "height": 120 + 70 * len(rows),
        "showlegend": False,
        "xaxis": {"title": {"text": html.escape(summary.metric_name)}, "zeroline": False, "range": [low, high]},
        "yaxis": {
            "tickvals": list(range(len(rows))),
            "ticktext": [html.escape(label) for label, _, _ in rows],
            "range": [-0.6, len(rows) - 0.4],
            "showgrid": False,
            "zeroline": False,
        },
    }
    return {"data": data, "layout": layout}


def _strip(row: int, label: str, estimate: Estimate, color: str, side: str) -> list[JsonDict]:
    """Points spread over the height of a row, so that equal scores do not hide each other, and the IQM below them."""
    n = estimate.n
    spread = [row + 0.12 + 0.22 * (index % 5) / 4 for index in range(n)]
    points = {
        "type": "scatter",
        "mode": "markers",
        "x": list(estimate.points),
        "y": spread,
        "marker": {"color": color, "size": 9, "opacity": 0.65},
        "hovertemplate": f"{html.escape(label)}: %{{x:.5g}}<extra></extra>",
    }
    low, high = estimate.low, estimate.high
    interval: JsonDict = {}
    if low is not None and high is not None:
        sides = {"array": [high - estimate.iqm], "arrayminus": [estimate.iqm - low]}
        interval = {
            "error_x": {"type": "data", "symmetric": False, "color": color, "thickness": 2, "width": 8, **sides}
        }
    middle = {
        "type": "scatter",
        "mode": "markers+text",
        "x": [estimate.iqm],
        "y": [row - 0.15],
        "text": [f"IQM {html.escape(str(estimate)) if low is not None else format_number(estimate.iqm)}"],
        "textposition": f"bottom {side}",
        "cliponaxis": False,
        "marker": {"color": color, "size": 13, "symbol": "diamond"},
        "hovertemplate": f"{html.escape(label)}: IQM %{{x:.5g}}<extra></extra>",
        **interval,
    }
    return [points, middle]


def history_figure(summary: StudySummary) -> JsonDict | None:
    """Score of each screening trial in the order of their numbers, and the best so far."""
    runs = sorted(summary.stage(SCREEN), key=lambda run: run.number)
    complete = [run for run in runs if run.complete]
    compared = [run for run in runs if run.complete or run.outcome is Outcome.PRUNED]
    heights = [height for run in compared if (height := _height(run)) is not None]
    if not heights:
        return None
    floor = min(heights) if summary.maximised else max(heights)
    best = _improvements(summary, complete)
    winner = [run for run in complete if run.label == summary.winner_label]
    drawn = thinned(runs, MOST_POINTS, kept=(*best, *winner))
    groups = [
        _markers("complete", [run for run in drawn if run.complete and run not in winner], floor, TRIAL, "circle"),
        _markers("pruned, at its last report", [run for run in drawn if _is_pruned(run)], floor, TRIAL, "circle-open"),
        _markers("failed", [run for run in drawn if run.failed], floor, FAILED, "x"),
        _markers("the winner", winner, floor, WINNER, "star"),
    ]
    layout = {
        "height": 380,
        "xaxis": {"title": {"text": "trial"}, "zeroline": False},
        "yaxis": {"title": {"text": "score"}, "zeroline": False},
    }
    return {"data": [_best_so_far(best, complete), *(group for group in groups if group["x"])], "layout": layout}


def _is_pruned(run: RunRecord) -> bool:
    return run.outcome is Outcome.PRUNED and _height(run) is not None


def _improvements(summary: StudySummary, complete: Sequence[RunRecord]) -> list[RunRecord]:
    """The complete runs that were better than all before them."""
    found: list[RunRecord] = []
    for run in complete:
        if not found or (summary.merit(run) or 0.0) > (summary.merit(found[-1]) or 0.0):
            found.append(run)
    return found


def _best_so_far(best: Sequence[RunRecord], complete: Sequence[RunRecord]) -> JsonDict:
    """A line that steps up with each improvement and goes on to the last complete run."""
    return {
        "type": "scatter",
        "mode": "lines",
        "name": "best so far",
        "x": [*(run.number for run in best), *(run.number for run in complete[-1:])],
        "y": [*(run.score for run in best), *(run.score for run in best[-1:])],
        "line": {"shape": "hv", "color": WINNER, "width": 1.5},
        "hoverinfo": "skip",
    }


def _markers(name: str, runs: Sequence[RunRecord], floor: float, color: str, symbol: str) -> JsonDict:
    """Runs as points; one without any value is put where the worst is."""
    heights = [floor if (height := _height(run)) is None else height for run in runs]
    return {
        "type": "scatter",
        "mode": "markers",
        "name": name,
        "x": [run.number for run in runs],
        "y": heights,
        "customdata": [hover_text(run) for run in runs],
        "marker": {"color": color, "size": 13 if symbol == "star" else 8, "symbol": symbol},
        "hovertemplate": "%{customdata}<extra></extra>",
    }


def hover_text(run: RunRecord) -> str:
    """What a run's point says: label and score, what went wrong, its parameters; escaped."""
    value = "no score" if run.value is None else format_number(run.value)
    parts = [f"{run.label}: {value}", run.reason[:120], describe_params(run.params, limit=12).replace(", ", "\n")]
    return "<br>".join(html.escape(part).replace("\n", "<br>") for part in parts if part)


def _height(run: RunRecord) -> float | None:
    """Where a run is drawn: its value, or what it reported last."""
    values = [run.value, run.curve[-1][1] if run.curve else None]
    return next((value for value in values if value is not None and math.isfinite(value)), None)


def curves_figure(summary: StudySummary) -> JsonDict | None:
    """Learning curves: screening trials in the background, test runs of winner and default by seed and on average."""
    screen = thinned([run for run in summary.stage(SCREEN) if len(run.curve) > 1], MOST_LINES)
    data = [_lines("screening trials", screen, FAINT, 1.0)] if screen else []
    for label, color in ((summary.default_label, DEFAULT), (summary.winner_label, WINNER)):
        runs = [run for run in summary.stage(TEST, label) if len(run.curve) > 1] if label is not None else []
        if runs and not (color == WINNER and label == summary.default_label):
            data.append(_lines(f"{label}, test seeds", runs, color, 0.9, legend=False, opacity=0.4))
            data.append(_mean_line(f"{label}, mean of {len(runs)} test seeds", runs, color))
    if not data:
        return None
    steps = [step for run in summary.runs for step, _ in run.curve]
    fractions = max(steps) <= 1.0
    x_axis: JsonDict = {"title": {"text": "part of the step budget" if fractions else "step"}, "zeroline": False}
    if fractions:
        x_axis |= {"tickformat": ".0%", "range": [0, 1.02]}
    y_axis = {"title": {"text": "reported value"}, "zeroline": False}
    return {"data": data, "layout": {"height": 380, "xaxis": x_axis, "yaxis": y_axis}}


def _lines(
    name: str, runs: Iterable[RunRecord], color: str, width: float, legend: bool = True, opacity: float = 1.0
) -> JsonDict:
    """Many curves as one trace, with gaps between them."""
    x: list[float | None] = []
    y: list[float | None] = []
    labels: list[str | None] = []
    for run in runs:
        x += [*(step for step, _ in run.curve), None]
        y += [*(finite(value) for _, value in run.curve), None]
        labels += [html.escape(f"{run.label}, seed {run.seed}")] * (len(run.curve) + 1)
    return {
        "type": "scatter",
        "mode": "lines",
        "name": html.escape(name),
        "x": x,
        "y": y,
        "customdata": labels,
        "line": {"color": color, "width": width},
        "opacity": opacity,
        "showlegend": legend,
        "hovertemplate": "%{customdata}: %{y:.5g}<extra></extra>",
    }


def _mean_line(name: str, runs: Sequence[RunRecord], color: str) -> JsonDict:
    """Mean over the runs that have a report at a step."""
    values: dict[float, list[float]] = {}
    for run in runs:
        for step, value in run.curve:
            if math.isfinite(value):
                values.setdefault(step, []).append(value)
    steps = sorted(values)
    return {
        "type": "scatter",
        "mode": "lines",
        "name": html.escape(name),
        "x": steps,
        "y": [sum(values[step]) / len(values[step]) for step in steps],
        "line": {"color": color, "width": 3},
        "hovertemplate": "mean: %{y:.5g}<extra></extra>",
    }


def finite(value: float) -> float | None:
    """JSON and Plotly know no NaN: a gap in its place."""
    return value if math.isfinite(value) else None
