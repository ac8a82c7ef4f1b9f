"""The figure of an ablation: how the score rises from the default configuration to the winner."""

import html

from tuner.features.ablation.effects import Effect, StepEffect, step_effects, step_names
from tuner.features.ablation.facts import Ablation
from tuner.reporting.figures.style import DEFAULT, FAILED, FAINT, HOVER, TRIAL, WINNER, axis, lines_of
from tuner.results.findings import Estimate, estimate
from tuner.trial.messages import JsonDict

_NAME_CHARS = 20
_COLORS = {
    **{Effect.HELPED: WINNER, Effect.HURT: FAILED, Effect.NONE: FAINT},
    **dict.fromkeys((Effect.NEEDED, Effect.UNCLEAR), TRIAL),
}


def ablation_figure(ablation: Ablation) -> JsonDict:
    """One row for each configuration of the path, the default one above: every seed, IQM and interval."""
    names = ["default", *(f"+ {name}" for name in step_names(ablation))]
    effects = step_effects(ablation)
    start = estimate(ablation.default)
    rows = [(start, DEFAULT, "default"), *((one.score, _COLORS[one.effect], _hover(one)) for one in effects)]
    height = len(rows)
    data = [_path([found.iqm for found, _, _ in rows])]
    for place, (found, color, hover) in enumerate(rows):
        data += [_points(height - 1 - place, found, color), _middle(height - 1 - place, found, color, hover)]
    labels = [lines_of(name, _NAME_CHARS) for name in names]
    num_lines = sum(label.count("<br>") + 1 for label in labels)
    layout = {
        "height": 90 + 30 * height + 14 * num_lines,
        "margin": {"t": 8},
        "showlegend": False,
        "xaxis": axis("score"),
        "yaxis": {
            "tickvals": list(range(height)),
            "ticktext": labels[::-1],
            "range": [-0.6, height - 0.4],
            "showgrid": False,
            "zeroline": False,
        },
    }
    return {"data": data, "layout": layout}


def _hover(one: StepEffect) -> str:
    moved = (change.words for change in one.changes)
    return "<br>".join(map(html.escape, [*moved, f"{one.gain.signed}: {one.effect.value}"]))


def _path(middles: list[float]) -> JsonDict:
    """The line from row to row."""
    heights = list(range(len(middles)))[::-1]
    line = {"color": FAINT, "width": 2, "shape": "vh"}
    return {"type": "scatter", "mode": "lines", "x": middles, "y": heights, "line": line, "hoverinfo": "skip"}


def _points(place: int, found: Estimate, color: str) -> JsonDict:
    return {
        "type": "scatter",
        "mode": "markers",
        "x": list(found.points),
        "y": [place + 0.14 + 0.18 * (index % 5) / 4 for index in range(found.n)],
        "marker": {"color": color, "size": 6, "opacity": 0.6},
        "hovertemplate": "%{x:.5g}<extra></extra>",
    }


def _middle(place: int, found: Estimate, color: str, hover: str) -> JsonDict:
    trace: JsonDict = {
        "type": "scatter",
        "mode": "markers",
        "x": [found.iqm],
        "y": [place],
        "customdata": [f"{hover}<br>IQM {html.escape(str(found))}"],
        "marker": {"color": color, "size": 12, "symbol": "diamond"},
        "hovertemplate": HOVER,
    }
    if found.low is not None and found.high is not None:
        trace["error_x"] = {
            **{"type": "data", "symmetric": False, "color": color, "thickness": 2, "width": 6},
            **{"array": [found.high - found.iqm], "arrayminus": [found.iqm - found.low]},
        }
    return trace
