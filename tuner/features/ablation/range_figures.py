"""Figures of how far each parameter of a winner may move: its score against the parameter, as it was checked."""

import html
from collections.abc import Mapping

from tuner.features.ablation.facts import Ablation, CheckedRange, CheckedValue
from tuner.features.ablation.found_ranges import allowed_loss, holds, loss
from tuner.reporting.figures.parameter_effects import coordinate, value_ticks
from tuner.reporting.figures.style import FAILED, FAINT, HOVER, TRIAL, WINNER, axis
from tuner.reporting.figures.value_axis import AxisScale
from tuner.results.findings import Estimate, estimate
from tuner.results.number_format import format_value
from tuner.results.records import Scalar
from tuner.trial.messages import JsonDict


def range_figures(ablation: Ablation, scales: Mapping[str, str]) -> dict[str, JsonDict]:
    """Id of its place -> figure, one for each parameter that was looked at.

    Args:
        ablation: Its measurements.
        scales: See `StudySummary.scales`.
    """
    return {
        f"range-figure-{number}": _figure(ablation, one, one.path, scales.get(one.path))
        for number, one in enumerate(ablation.ranges, start=1)
    }


def _figure(ablation: Ablation, one: CheckedRange, name: str, declared: str | None) -> JsonDict:
    winner = estimate(ablation.steps[-1].scores)
    checked = [value for value in one.checked if value.scores]
    values = [one.value, *(value.value for value in checked)]
    scale = AxisScale.of(values, declared)
    middles = sorted([(one.value, winner.iqm), *((value.value, estimate(value.scores).iqm) for value in checked)])
    line: JsonDict = {
        "type": "scatter",
        "mode": "lines",
        "x": [coordinate(value, scale) for value, _ in middles],
        "y": [score for _, score in middles],
        "line": {"color": FAINT, "width": 1},
        "hoverinfo": "skip",
    }
    data = [line]
    for wanted, color in ((True, TRIAL), (False, FAILED)):
        found = [value for value in checked if holds(ablation, value) is wanted]
        data.append(
            {
                **_points(
                    [coordinate(value.value, scale) for value in found], [estimate(v.scores) for v in found], color
                ),
                "customdata": [_hover(ablation, name, value) for value in found],
                "marker": {"color": color, "size": 9},
            }
        )
    data.append(
        {
            **_points([coordinate(one.value, scale)], [winner], WINNER),
            "customdata": [f"winner, {html.escape(name)} {format_value(one.value)}: {html.escape(str(winner))}"],
            "marker": {"color": WINNER, "size": 14, "symbol": "star"},
        }
    )
    layout = {
        "height": 250,
        "margin": {"l": 48, "r": 16, "t": 8, "b": 48},
        "showlegend": False,
        "xaxis": {**axis(name), **value_ticks(values, scale)},
        "yaxis": axis("score"),
        "shapes": _band(winner, winner.iqm - allowed_loss(ablation)),
    }
    return {"data": data, "layout": layout}


def _hover(ablation: Ablation, name: str, checked: CheckedValue) -> str:
    lost = loss(ablation, checked.scores)
    told = (f"{name} {format_value(checked.value)}: {estimate(checked.scores)}", f"{lost.signed} on {lost.n} seeds")
    return "<br>".join(map(html.escape, told))


def _points(x: list[Scalar], found: list[Estimate], color: str) -> JsonDict:
    """Middles with their intervals."""
    return {
        "type": "scatter",
        "mode": "markers",
        "x": x,
        "y": [one.iqm for one in found],
        "hovertemplate": HOVER,
        "error_y": {
            **{"type": "data", "symmetric": False, "color": color, "thickness": 1.5, "width": 4},
            "array": [0.0 if one.high is None else one.high - one.iqm for one in found],
            "arrayminus": [0.0 if one.low is None else one.iqm - one.low for one in found],
        },
    }


def _band(winner: Estimate, limit: float) -> list[JsonDict]:
    """The winner's interval, and where a score no longer holds."""
    across = {"xref": "paper", "x0": 0, "x1": 1, "layer": "below"}
    edge = {"type": "line", "y0": limit, "y1": limit, "line": {"color": WINNER, "width": 1, "dash": "dot"}}
    band = {
        "type": "rect",
        "y0": winner.low,
        "y1": winner.high,
        "fillcolor": WINNER,
        "opacity": 0.15,
        "line": {"width": 0},
    }
    return [{**across, **band}, {**across, **edge}]
