"""The figures about the whole of a study: parameters side by side, importance over time, more trials."""

import html
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from tuner.reporting.downsampling import MOST_LINES, thinned
from tuner.reporting.figures.style import (
    BACKGROUND,
    DEFAULT,
    FAINT,
    HOVER,
    TRIAL,
    WINNER,
    axis,
    budget_axis,
    hover_text,
    lines_of,
)
from tuner.reporting.figures.value_axis import LINEAR, AxisScale
from tuner.results.features import chosen
from tuner.results.insights.effort import expected_best
from tuner.results.records import SCREEN, Importances, RunRecord, StudySummary
from tuner.support.plain_text import shortened
from tuner.trial.messages import JsonDict

MAX_AXES: Final = 8
MAX_LINES: Final = 6
LINE_COLORS: Final = ("var(--winner)", "var(--default)", "var(--good)", "var(--open)", "var(--failed)", "var(--trial)")
_MIN_TRIALS = 4
_NAME_CHARS = 14
_CHAR_PX = 6.5


@dataclass(frozen=True)
class _Group:
    """Trials that are drawn alike in the figure of parallel axes."""

    name: str
    runs: Sequence[RunRecord]
    color: str
    width: float
    dash: str = "solid"


def parallel_figure(summary: StudySummary) -> JsonDict | None:
    """Each trial as a line over its parameters, the most important first, and its score at the end."""
    ended = [run for run in summary.stage(SCREEN) if run.outcome is not None and run.params]
    ranked = sorted((run for run in ended if run.complete), key=lambda run: -(summary.merit(run) or 0.0))
    if len(ranked) < _MIN_TRIALS:
        return None
    tried = dict.fromkeys(path for run in ended for path in run.params)
    paths = sorted(tried, key=lambda path: -summary.weights.get(path, 0.0))[:MAX_AXES]
    scales = {
        path: AxisScale.of((run.params[path] for run in ended if path in run.params), summary.scales.get(path))
        for path in paths
    }
    scores = AxisScale.of((run.score for run in ranked), LINEAR)
    lines = [_parallel_lines(summary, group, scales, scores) for group in _groups(summary, ended, ranked) if group.runs]
    uprights = [*(lines_of(path, _NAME_CHARS) for path in paths), "score"]
    labels = _tick_labels([*scales.values(), scores])
    texts = [label["text"] for label in labels]
    layout = {
        "height": 420,
        "meta": {"min_width": round(_CHAR_PX * (_longest([*uprights, *texts]) + 3) * (len(uprights) + 0.3))},
        "annotations": labels,
        "xaxis": {
            "tickvals": list(range(len(uprights))),
            "ticktext": uprights,
            "tickangle": 0,
            "range": [-0.4, len(uprights) - 0.1],
            "showgrid": True,
            "zeroline": False,
        },
        "yaxis": {"visible": False, "range": [-0.08, 1.08]},
        "margin": {"l": 8, "r": 8, "t": 16, "b": 48},
        "hovermode": "closest",
    }
    return {"data": lines, "layout": layout}


def _longest(labels: Sequence[str]) -> int:
    """Characters of the longest line of these labels, which are HTML."""
    return max(len(html.unescape(line)) for label in labels for line in label.split("<br>"))


def _groups(summary: StudySummary, ended: Sequence[RunRecord], ranked: Sequence[RunRecord]) -> list[_Group]:
    """Returns trials by how good they were, the best last and so on top; what the study chose is never left out.

    Each trial is in one group: a line that another one covers would leave its entry in the legend without a line.
    """
    quarter, tenth = max(2, len(ranked) // 4), max(1, len(ranked) // 10)
    choice = chosen(summary)
    best = [run for run in ranked if run.label in choice.labels]
    drawn = {run.number for run in thinned(ended, MOST_LINES)} - {run.number for run in best}

    def group(name: str, runs: Sequence[RunRecord], color: str, width: float, dash: str = "solid") -> _Group:
        return _Group(name, [run for run in runs if run.number in drawn], color, width, dash)

    return [
        group("pruned or failed", [run for run in ended if not run.complete], FAINT, 1.0, "dot"),
        group("complete", ranked[quarter:], FAINT, 1.0),
        group("best quarter", ranked[tenth:quarter], TRIAL, 1.5),
        group("best tenth", ranked[:tenth], DEFAULT, 2.0),
        _Group(choice.name, best, WINNER, 3.5),
    ]


def _parallel_lines(
    summary: StudySummary, group: _Group, scales: Mapping[str, AxisScale], scores: AxisScale
) -> JsonDict:
    """The lines of a group as one trace, with gaps between them."""
    x: list[float | None] = []
    y: list[float | None] = []
    words: list[str | None] = []
    for run in group.runs:
        places = [scale.place(run.params[path]) if path in run.params else None for path, scale in scales.items()]
        places.append(scores.place(run.score) if run.complete else None)
        x += [*range(len(places)), None]
        y += [*places, None]
        words += [hover_text(summary, run)] * (len(places) + 1)
    return {
        "type": "scatter",
        "mode": "lines+markers",
        "name": group.name,
        "x": x,
        "y": y,
        "customdata": words,
        "line": {"color": group.color, "width": group.width, "dash": group.dash},
        "marker": {"color": group.color, "size": 5},
        "hovertemplate": HOVER,
    }


def _tick_labels(scales: Sequence[AxisScale]) -> list[JsonDict]:
    """The values along each axis, on a ground that hides lines; Plotly has ticks on its own two axes only."""
    ticks = [(index, place, label) for index, scale in enumerate(scales) for place, label in scale.ticks()]
    look = {"showarrow": False, "xanchor": "left", "xshift": 5, "font": {"size": 11}, "borderpad": 1}
    return [
        {"x": index, "y": place, "text": html.escape(shortened(label, _NAME_CHARS)), **look, "bgcolor": BACKGROUND}
        for index, place, label in ticks
    ]


def importance_time_figure(summary: StudySummary) -> JsonDict | None:
    """Share of the most important parameters after parts of the budget."""
    moments = summary.importance_over_time
    if len(moments) < 2:
        return None
    peaks = {path: max(moment.shares.get(path, 0.0) for moment in moments) for path in moments[-1].shares}
    paths = sorted(peaks, key=lambda path: -peaks[path])[:MAX_LINES]
    data = [
        {"name": html.escape(path), **_importance_line(path, moments, color)}
        for path, color in zip(paths, LINE_COLORS, strict=False)
    ]
    shares = axis("share", tickformat=".0%", rangemode="tozero")
    return {"data": data, "layout": {"height": 320, "xaxis": budget_axis(1.04), "yaxis": shares}}


def _importance_line(path: str, moments: Sequence[Importances], color: str) -> JsonDict:
    """The share of one parameter; its points are filled where it is above what chance alone reaches."""
    above = [moment.shares.get(path, 0.0) > moment.null.get(path, 0.0) for moment in moments]
    symbols = ["circle" if is_above else "circle-open" for is_above in above]
    return {
        "type": "scatter",
        "mode": "lines+markers",
        "x": [moment.fraction for moment in moments],
        "y": [moment.shares.get(path, 0.0) for moment in moments],
        "line": {"color": color, "width": 2},
        "marker": {"color": color, "size": 9, "symbol": symbols},
        "hovertemplate": f"{html.escape(path)}: %{{y:.0%}}<extra></extra>",
    }


def expected_figure(summary: StudySummary) -> JsonDict | None:
    """Expected best score over the number of trials."""
    expected = expected_best(summary)
    if expected is None:
        return None
    curve = {
        "type": "scatter",
        "mode": "lines",
        "x": [count for count, _ in expected.points],
        "y": [value for _, value in expected.points],
        "line": {"color": WINNER, "width": 2.5},
        "hovertemplate": "%{x} trials: %{y:.5g}<extra></extra>",
    }
    axes = {"xaxis": axis("trials", rangemode="tozero"), "yaxis": axis("expected best score")}
    return {"data": [curve], "layout": {"height": 280, "showlegend": False, **axes}}
