"""The figures of a population: its tree, each parameter over time, and the schedule against what never changed."""

import html
from collections.abc import Iterable, Sequence
from typing import Final

import numpy as np

from tuner.features.population.descent import changing, line_of
from tuner.features.population.facts import EVOLVE, STATIC
from tuner.reporting.figures.style import DEFAULT, FAILED, FAINT, TRIAL, WINNER, axis, budget_axis, run_markers
from tuner.reporting.figures.value_axis import AxisScale
from tuner.results.records import TEST, RunRecord, StudySummary, numbers_among
from tuner.trial.messages import JsonDict

MAX_PARAMETERS: Final = 8


def tree_figure(summary: StudySummary) -> JsonDict | None:
    """Each run at its generation and member, joined with the one that it went on from."""
    runs = _runs(summary)
    if not runs:
        return None
    line = line_of(summary, summary.winner_label)
    by_number = {run.number: run for run in runs}
    edges = [[by_number[parent], run] for run in runs if (parent := _parent(run)) in by_number]
    data = [
        _joined("went on from", edges, FAINT, 1.0),
        _joined("the winner's line", [line], WINNER, 3.0),
        _points(summary, "runs", [run for run in runs if not run.failed and run not in line], TRIAL, "circle"),
        _points(summary, "failed", [run for run in runs if run.failed], FAILED, "x"),
        _points(summary, "of the winner's line", line, WINNER, "circle"),
    ]
    axes = {"xaxis": axis("generation", dtick=1), "yaxis": axis("member", dtick=1, autorange="reversed")}
    return {"data": [trace for trace in data if trace["x"]], "layout": {"height": 360, **axes}}


def value_figures(summary: StudySummary) -> dict[str, JsonDict]:
    """By configuration path, a parameter over training: all members, and the winner's line."""
    runs, line = _runs(summary), line_of(summary, summary.winner_label)
    num_generations = 1 + max((_place(run)[0] for run in runs), default=0)
    figures = {}
    for path in changing(summary)[:MAX_PARAMETERS]:
        known = [run for run in runs if numbers_among([run.params.get(path)])]
        parts = [[run] for run in known]
        scale = AxisScale.of((run.params[path] for run in known), summary.scales.get(path))
        data = [
            {"name": "members", "line": {"color": FAINT, "width": 1.5}, **_steps(parts, path, num_generations)},
            {
                "name": "the winner's line",
                "line": {"color": WINNER, "width": 3.0},
                **_steps([line], path, num_generations),
            },
        ]
        for trace in data:
            trace["y"] = [None if value is None else scale.place(value) for value in trace["y"]]
        ticks = {"tickvals": [place for place, _ in scale.ticks()], "ticktext": [text for _, text in scale.ticks()]}
        layout = {"height": 260, "xaxis": budget_axis(1.02), "yaxis": axis(path, **ticks)}
        figures[path] = {"data": data, "layout": layout}
    return figures


def replay_figure(summary: StudySummary) -> JsonDict | None:
    """Mean learning curves of the test runs: the schedule, what never changed, and the default configuration."""
    groups = (
        ("the schedule", summary.winner_label, WINNER),
        ("never changed", STATIC.of(summary), TRIAL),
        ("default", summary.default_label, DEFAULT),
    )
    data = []
    for name, label, color in groups:
        curves = [run.curve for run in summary.stage(TEST, label) if run.complete and run.curve] if label else []
        if curves and len({len(curve) for curve in curves}) == 1:
            steps, values = np.array(curves).mean(axis=0).T
            line = {"color": color, "width": 2.5}
            points = {"x": steps.tolist(), "y": values.tolist()}
            data.append({"type": "scatter", "mode": "lines", "name": name, **points, "line": line})
    if len(data) < 2:
        return None
    return {"data": data, "layout": {"height": 320, "xaxis": budget_axis(1.02), "yaxis": axis("mean return")}}


def _runs(summary: StudySummary) -> list[RunRecord]:
    return [run for run in summary.stage(EVOLVE) if run.descent is not None]


def _place(run: RunRecord) -> tuple[int, int]:
    assert run.descent is not None
    return run.descent.generation, run.descent.member


def _parent(run: RunRecord) -> int | None:
    return None if run.descent is None else run.descent.parent


def _joined(name: str, lines: Iterable[Sequence[RunRecord]], color: str, width: float) -> JsonDict:
    x: list[int | None] = []
    y: list[int | None] = []
    for line in lines:
        places = [_place(run) for run in line]
        x += [*(generation for generation, _ in places), None]
        y += [*(member for _, member in places), None]
    return {
        **{"type": "scatter", "mode": "lines", "name": name, "x": x, "y": y, "hoverinfo": "skip"},
        "line": {"color": color, "width": width},
    }


def _points(summary: StudySummary, name: str, runs: Sequence[RunRecord], color: str, symbol: str) -> JsonDict:
    places = [_place(run) for run in runs]
    marker = {"color": color, "size": 9, "symbol": symbol}
    x, y = [generation for generation, _ in places], [member for _, member in places]
    return {"name": name, **run_markers(summary, runs, x, y, marker)}


def _steps(lines: Iterable[Sequence[RunRecord]], path: str, num_generations: int) -> JsonDict:
    """A horizontal piece per generation."""
    x: list[float | None] = []
    y: list[object] = []
    for line in lines:
        for run in line:
            generation = _place(run)[0]
            x += [generation / num_generations, (generation + 1) / num_generations]
            y += [run.params.get(path)] * 2
        x.append(None)
        y.append(None)
    hover = f"{html.escape(path)}<extra></extra>"
    return {"type": "scatter", "mode": "lines", "x": x, "y": y, "hovertemplate": hover}
