"""The figures about the whole of a study: parameters side by side, importance over time, more trials, trade-offs."""

import html
from collections.abc import Sequence
from typing import Final

from tuner.reporting.figures.scales import LINEAR, AxisScale
from tuner.reporting.figures.scores import DEFAULT, FAINT, TRIAL, WINNER, hover_text
from tuner.reporting.thinning import MOST_LINES, thinned
from tuner.results.front_verdict import front_members, objectives_of
from tuner.results.insights.effort import expected_best
from tuner.results.records import SCREEN, RunRecord, StudySummary
from tuner.results.wording import short_names
from tuner.trial.messages import JsonDict

MAX_AXES: Final = 8
MAX_LINES: Final = 6
LINE_COLORS: Final = ("var(--winner)", "var(--default)", "var(--good)", "var(--open)", "var(--failed)", "var(--trial)")
_MIN_TRIALS = 4


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
    quarter, tenth = max(2, len(ranked) // 4), max(1, len(ranked) // 10)
    front = [run for run in ranked if run.label in summary.front]
    winner = [run for run in ranked if run.label == summary.winner_label]
    drawn = {run.number for run in thinned(ended, MOST_LINES)}
    every = (
        ("pruned or failed", [run for run in ended if not run.complete], "var(--grid)", 1.0),
        ("complete", ranked[quarter:], FAINT, 1.0),
        ("best quarter", ranked[tenth:quarter], TRIAL, 1.5),
        ("best tenth", ranked[:tenth], DEFAULT, 2.0),
    )
    groups = (
        *((name, [run for run in runs if run.number in drawn], color, width) for name, runs, color, width in every),
        ("the front" if front else "the winner", front or winner, WINNER, 3.5),
    )
    data = [_group(name, runs, scales, scores, (color, width)) for name, runs, color, width in groups if runs]
    names = short_names(paths)
    layout = {
        "height": 420,
        "xaxis": {
            "tickvals": list(range(len(paths) + 1)),
            "ticktext": [*(html.escape(names[path]) for path in paths), "score"],
            "range": [-0.35, len(paths) + 0.45],
            "showgrid": True,
            "zeroline": False,
        },
        "yaxis": {"visible": False, "range": [-0.08, 1.08]},
        "margin": {"l": 8, "r": 8, "t": 16, "b": 48},
        "hovermode": "closest",
    }
    return {"data": [*data, _tick_labels([*scales.values(), scores])], "layout": layout}


def _group(
    name: str, runs: Sequence[RunRecord], scales: dict[str, AxisScale], scores: AxisScale, style: tuple[str, float]
) -> JsonDict:
    x: list[float | None] = []
    y: list[float | None] = []
    words: list[str | None] = []
    for run in runs:
        places = [scale.place(run.params[path]) if path in run.params else None for path, scale in scales.items()]
        places.append(scores.place(run.score) if run.complete else None)
        x += [*range(len(places)), None]
        y += [*places, None]
        words += [hover_text(run)] * (len(places) + 1)
    color, width = style
    return {
        "type": "scatter",
        "mode": "lines+markers",
        "name": name,
        "x": x,
        "y": y,
        "customdata": words,
        "line": {"color": color, "width": width},
        "marker": {"color": color, "size": 5},
        "hovertemplate": "%{customdata}<extra></extra>",
    }


def _tick_labels(scales: Sequence[AxisScale]) -> JsonDict:
    ticks = [(index, place, label) for index, scale in enumerate(scales) for place, label in scale.ticks()]
    return {
        "type": "scatter",
        "mode": "text",
        "x": [index + 0.04 for index, _, _ in ticks],
        "y": [place for _, place, _ in ticks],
        "text": [html.escape(label) for _, _, label in ticks],
        "textposition": "middle right",
        "textfont": {"size": 11},
        "showlegend": False,
        "hoverinfo": "skip",
    }


def importance_time_figure(summary: StudySummary) -> JsonDict | None:
    """Share of the most important parameters after parts of the budget."""
    moments = summary.importance_over_time
    if len(moments) < 2:
        return None
    peaks = {path: max(moment.shares.get(path, 0.0) for moment in moments) for path in moments[-1].shares}
    paths = sorted(peaks, key=lambda path: -peaks[path])[:MAX_LINES]
    names = short_names(peaks)
    data = []
    for path, color in zip(paths, LINE_COLORS, strict=False):
        above = [moment.shares.get(path, 0.0) > moment.null.get(path, 0.0) for moment in moments]
        data.append(
            {
                "type": "scatter",
                "mode": "lines+markers",
                "name": html.escape(names[path]),
                "x": [moment.fraction for moment in moments],
                "y": [moment.shares.get(path, 0.0) for moment in moments],
                "line": {"color": color, "width": 2},
                "marker": {"color": color, "size": 9, "symbol": ["circle" if one else "circle-open" for one in above]},
                "hovertemplate": f"{html.escape(path)}: %{{y:.0%}}<extra></extra>",
            }
        )
    x_axis = {"title": {"text": "part of the step budget"}, "tickformat": ".0%", "range": [0, 1.04], "zeroline": False}
    y_axis = {"title": {"text": "share"}, "tickformat": ".0%", "rangemode": "tozero", "zeroline": False}
    return {"data": data, "layout": {"height": 320, "xaxis": x_axis, "yaxis": y_axis}}


def expected_figure(summary: StudySummary) -> JsonDict | None:
    """Expected best score over the number of trials."""
    found = expected_best(summary)
    if found is None:
        return None
    curve = {
        "type": "scatter",
        "mode": "lines",
        "x": [count for count, _ in found.points],
        "y": [value for _, value in found.points],
        "line": {"color": WINNER, "width": 2.5},
        "hovertemplate": "%{x} trials: %{y:.5g}<extra></extra>",
    }
    x_axis = {"title": {"text": "trials"}, "rangemode": "tozero", "zeroline": False}
    y_axis = {"title": {"text": "expected best score"}, "zeroline": False}
    return {"data": [curve], "layout": {"height": 280, "showlegend": False, "xaxis": x_axis, "yaxis": y_axis}}


def front_figure(summary: StudySummary) -> JsonDict | None:
    """The first two objectives against each other: all trials, the front and the default configuration."""
    if not summary.others:
        return None
    complete = [run for run in summary.stage(SCREEN) if run.complete]
    points = [(run, values) for run in complete if (values := run.objectives(summary.others)) is not None]
    if not points:
        return None
    first, second = objectives_of(summary)[:2]
    data: list[JsonDict] = [
        {
            "type": "scatter",
            "mode": "markers",
            "name": "trials",
            "x": [values[1] for _, values in points],
            "y": [values[0] for _, values in points],
            "customdata": [hover_text(run) for run, _ in points],
            "marker": {"color": TRIAL, "size": 8},
            "hovertemplate": "%{customdata}<extra></extra>",
        }
    ]
    members = front_members(summary)
    own = [member for member in members if member.label in summary.front and not member.beaten]
    lost = [member for member in members if member.label in summary.front and member.beaten]
    default = [member for member in members if member.label not in summary.front]
    where = "" if summary.is_sweep else ", latest stage"
    for name, group, color, mode in (
        (f"the front{where}", own, WINNER, "lines+markers+text"),
        (f"beaten after all{where}", lost, FAINT, "markers+text"),
        (f"default{where}", default, DEFAULT, "markers+text"),
    ):
        if group:
            ordered = sorted(group, key=lambda member: member.values[1].iqm)
            data.append(
                {
                    "type": "scatter",
                    "mode": mode,
                    "name": name,
                    "x": [member.values[1].iqm for member in ordered],
                    "y": [member.values[0].iqm for member in ordered],
                    "text": [html.escape(member.label) for member in ordered],
                    "textposition": "top center",
                    "line": {"color": color, "width": 1, "dash": "dot"},
                    "marker": {"color": color, "size": 12, "symbol": "diamond"},
                    "hovertemplate": f"%{{text}}: {html.escape(first.name)} %{{y:.5g}}, "
                    f"{html.escape(second.name)} %{{x:.5g}}<extra></extra>",
                }
            )
    x_axis, y_axis = ({"title": {"text": html.escape(one.label)}, "zeroline": False} for one in (second, first))
    return {"data": data, "layout": {"height": 420, "xaxis": x_axis, "yaxis": y_axis}}
