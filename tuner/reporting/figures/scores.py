"""The figures about scores: the winner against the default, trial after trial, and over the steps of each run."""

import html
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tuner.reporting.downsampling import MOST_LINES, MOST_POINTS, thinned
from tuner.reporting.figures.style import (
    DEFAULT,
    FAILED,
    FAINT,
    TRIAL,
    WINNER,
    axis,
    budget_axis,
    finite,
    run_markers,
)
from tuner.results.findings import Estimate, Verdict, estimate
from tuner.results.records import SCREEN, TEST, RunRecord, StudySummary
from tuner.results.run_labels import shown_label
from tuner.trial.messages import JsonDict, Outcome


@dataclass(frozen=True)
class _Row:
    """One configuration in the comparison.

    Attributes:
        label: Its name.
        estimate: Its test scores; None: it has none.
        color: Of its points.
    """

    label: str
    estimate: Estimate | None
    color: str


def comparison_figure(summary: StudySummary, judged: Verdict) -> JsonDict | None:
    """Test scores of the winner, of the default configuration and of baselines: every seed, IQM and interval."""
    rows = [_Row(shown_label(summary, summary.default_label), judged.default, DEFAULT)]
    for label in summary.baselines:
        scores = [run.score for run in summary.stage(TEST, label) if run.score is not None]
        rows.append(_Row(label, estimate(scores) if scores else None, TRIAL))
    if summary.winner_label not in (None, summary.default_label):
        rows.append(_Row(str(summary.winner_label), judged.winner, WINNER))
    points = [point for row in rows if row.estimate is not None for point in row.estimate.points]
    if not points:
        return None
    margin = 0.12 * (max(points) - min(points)) or 1.0
    low, high = min(points) - margin, max(points) + margin
    data: list[JsonDict] = []
    for height, row in enumerate(rows):
        if row.estimate is not None:
            data.append(_points(height, row, row.estimate))
            data.append(_middle(height, row, row.estimate, _inwards((row.estimate.iqm - low) / (high - low))))
    layout = {
        "height": 120 + 70 * len(rows),
        "showlegend": False,
        "xaxis": axis("score", range=[low, high]),
        "yaxis": {
            "tickvals": list(range(len(rows))),
            "ticktext": [html.escape(row.label) for row in rows],
            "range": [-0.6, len(rows) - 0.4],
            "showgrid": False,
            "zeroline": False,
        },
    }
    return {"data": data, "layout": layout}


def _inwards(place: float) -> str:
    """Returns the side of a point at which its text stays within the plot, which may be narrow."""
    if place > 0.7:
        return "left"
    return "right" if place < 0.3 else "center"


def _points(height: int, row: _Row, estimate: Estimate) -> JsonDict:
    """One point per seed, spread over the height of the row, so that equal scores do not hide each other."""
    return {
        "type": "scatter",
        "mode": "markers",
        "x": list(estimate.points),
        "y": [height + 0.12 + 0.22 * (index % 5) / 4 for index in range(estimate.n)],
        "marker": {"color": row.color, "size": 9, "opacity": 0.65},
        "hovertemplate": f"{html.escape(row.label)}: %{{x:.5g}}<extra></extra>",
    }


def _middle(height: int, row: _Row, estimate: Estimate, side: str) -> JsonDict:
    """The IQM below the points, with its interval if there is one."""
    low, high = estimate.low, estimate.high
    text = html.escape(str(estimate)) if low is not None else estimate.mean
    trace: JsonDict = {
        "type": "scatter",
        "mode": "markers+text",
        "x": [estimate.iqm],
        "y": [height - 0.15],
        "text": [f"IQM {text}"],
        "textposition": f"bottom {side}",
        "cliponaxis": False,
        "marker": {"color": row.color, "size": 13, "symbol": "diamond"},
        "hovertemplate": f"{html.escape(row.label)}: IQM %{{x:.5g}}<extra></extra>",
    }
    if low is not None and high is not None:
        trace["error_x"] = {
            **{"type": "data", "symmetric": False, "color": row.color, "thickness": 2, "width": 8},
            **{"array": [high - estimate.iqm], "arrayminus": [estimate.iqm - low]},
        }
    return trace


def history_figure(summary: StudySummary) -> JsonDict | None:
    """Score of each screening trial in the order of their numbers, and the best so far."""
    runs = sorted(summary.stage(SCREEN), key=lambda run: run.number)
    complete = [run for run in runs if run.complete]
    compared = [run for run in runs if run.complete or run.outcome is Outcome.PRUNED]
    heights = [height for run in compared if (height := _height(run)) is not None]
    if not heights:
        return None
    worst = min(heights) if summary.maximised else max(heights)
    best = _improvements(summary, complete)
    winner = [run for run in complete if run.label == summary.winner_label]
    drawn = thinned(runs, MOST_POINTS, kept=(*best, *winner))
    others = [run for run in drawn if run.complete and run not in winner]
    groups = [
        _markers(summary, "complete", others, worst, {"color": TRIAL, "size": 8, "symbol": "circle"}),
        _markers(
            summary,
            "pruned, at its last report",
            [run for run in drawn if _is_pruned(run)],
            worst,
            {"color": TRIAL, "size": 8, "symbol": "circle-open"},
        ),
        _markers(
            summary,
            "failed",
            [run for run in drawn if run.failed],
            worst,
            {"color": FAILED, "size": 8, "symbol": "x"},
        ),
        _markers(summary, "the winner", winner, worst, {"color": WINNER, "size": 13, "symbol": "star"}),
    ]
    layout = {"height": 380, "xaxis": axis("trial"), "yaxis": axis("score")}
    return {"data": [_best_so_far(best, complete), *(group for group in groups if group["x"])], "layout": layout}


def _is_pruned(run: RunRecord) -> bool:
    return run.outcome is Outcome.PRUNED and _height(run) is not None


def _improvements(summary: StudySummary, complete: Sequence[RunRecord]) -> list[RunRecord]:
    """Returns the complete runs that were better than all before them."""
    best: list[RunRecord] = []
    for run in complete:
        if not best or (summary.merit(run) or 0.0) > (summary.merit(best[-1]) or 0.0):
            best.append(run)
    return best


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


def _markers(summary: StudySummary, name: str, runs: Sequence[RunRecord], worst: float, marker: JsonDict) -> JsonDict:
    """Runs as points; one without any value is put where the worst is."""
    heights = [worst if (height := _height(run)) is None else height for run in runs]
    return {"name": name, **run_markers(summary, runs, [run.number for run in runs], heights, marker)}


def _height(run: RunRecord) -> float | None:
    """Where a run is drawn: its value, or what it reported last."""
    values = [run.value, run.curve[-1][1] if run.curve else None]
    return next((value for value in values if value is not None and math.isfinite(value)), None)


def curves_figure(summary: StudySummary) -> JsonDict | None:
    """Learning curves: screening trials in the background, test runs of winner and default by seed and on average."""
    screen = thinned(_with_curves(summary.stage(SCREEN)), MOST_LINES)
    data = [_lines(summary, "screening trials", screen, {"color": FAINT, "width": 1.0})] if screen else []
    data += _test_curves(summary, summary.default_label, DEFAULT)
    if summary.winner_label not in (None, summary.default_label):
        data += _test_curves(summary, str(summary.winner_label), WINNER)
    if not data:
        return None
    last_step = max(step for run in summary.runs for step, _ in run.curve)
    steps = budget_axis(1.02) if last_step <= 1.0 else axis("step")  # runs report either shares or numbers of steps
    return {"data": data, "layout": {"height": 380, "xaxis": steps, "yaxis": axis("reported value")}}


def _with_curves(runs: Iterable[RunRecord]) -> list[RunRecord]:
    """Returns the runs that reported more than once: one point is no line."""
    return [run for run in runs if len(run.curve) > 1]


def _test_curves(summary: StudySummary, label: str, color: str) -> list[JsonDict]:
    runs = _with_curves(summary.stage(TEST, label))
    if not runs:
        return []
    shown = shown_label(summary, label)
    lines = _lines(summary, f"{shown}, test seeds", runs, {"color": color, "width": 0.9})
    mean = _mean_line(f"{shown}, mean of {len(runs)} test seeds", runs, color)
    return [{**lines, "opacity": 0.4, "showlegend": False}, mean]


def _lines(summary: StudySummary, name: str, runs: Iterable[RunRecord], line: JsonDict) -> JsonDict:
    """Many curves as one trace, with gaps between them."""
    x: list[float | None] = []
    y: list[float | None] = []
    labels: list[str | None] = []
    for run in runs:
        x += [*(step for step, _ in run.curve), None]
        y += [*(finite(value) for _, value in run.curve), None]
        label = html.escape(f"{shown_label(summary, run.label)}, seed {run.seed}")
        labels += [label] * (len(run.curve) + 1)
    return {
        "type": "scatter",
        "mode": "lines",
        "name": html.escape(name),
        "x": x,
        "y": y,
        "customdata": labels,
        "line": line,
        "opacity": 1.0,
        "showlegend": True,
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
