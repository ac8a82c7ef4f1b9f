"""The page of several budgets."""

import html
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tuner.features.budgets.budget_points import BudgetPoint, advice, called, gain_words
from tuner.reporting.elements import copied_command, figure, note, number_cell, section, table, text_cell
from tuner.reporting.figures.style import DEFAULT, WINNER, axis
from tuner.reporting.markup import Html, join, tag
from tuner.reporting.page import PAGE_FILE, document
from tuner.results.findings import Estimate
from tuner.results.number_format import format_seconds
from tuner.support.text_files import atomic_write
from tuner.trial.messages import JsonDict

BUDGETS_FILE: Final = "budgets.html"


def write_budgets_page(points: Sequence[BudgetPoint], name: str, command: str, folder: Path) -> Path:
    """Writes it.

    Args:
        points: As `compared_budgets` gives them, at least one.
        name: Common to the studies.
        command: That makes the page again.
        folder: Where it goes.

    Returns:
        Its path.

    Raises:
        UserError: plotly is not installed.
    """
    title = f"{name}: what longer runs are worth"
    words = (
        "Test scores of the configuration that the study of each budget advises, and of the default one, with 95 % "
        "intervals over the test seeds. Steps are on a logarithmic axis."
    )
    body = [
        tag("header", tag("h1", title)),
        section("verdict", "Verdict", tag("p", advice(points))),
        section("budgets", "Score against steps", figure("budgets-figure", words), _table(points)),
        section("train", "Train them", *(part for point in points for part in _command(point))),
        section(
            "again",
            "Run it again",
            note("The same command goes on, and makes this page."),
            copied_command("cmd", command),
        ),
    ]
    path = folder / BUDGETS_FILE
    atomic_write(path, document(title, tag("main", join(body)), {"budgets-figure": budgets_figure(points)}))
    return path


def budgets_figure(points: Sequence[BudgetPoint]) -> JsonDict:
    """Scores against steps, of what is advised and of the default."""
    lines = [
        ("advised", [(point, point.score) for point in points], WINNER),
        ("default", [(point, point.default) for point in points if point.default is not None], DEFAULT),
    ]
    data = [_trace(name, line, color) for name, line, color in lines if line]
    steps = [point.steps for point in points]
    ticks = {"tickvals": steps, "ticktext": [f"{one:,}" for one in steps]}
    axes = {"xaxis": axis("steps of a run", type="log", **ticks), "yaxis": axis("score")}
    return {"data": data, "layout": {"height": 420, **axes}}


def _trace(name: str, line: Sequence[tuple[BudgetPoint, Estimate | None]], color: str) -> JsonDict:
    scores = [score for _, score in line if score is not None]
    return {
        "type": "scatter",
        "mode": "lines+markers",
        "name": name,
        "x": [point.steps for point, _ in line],
        "y": [score.iqm for score in scores],
        "text": [html.escape(f"{point.label}: {score}") for point, score in line],
        "hovertemplate": "%{text}<extra></extra>",
        "line": {"color": color},
        "marker": {"color": color, "size": 9},
        "error_y": {
            "type": "data",
            "symmetric": False,
            "array": [_reach(score.high, score.iqm) for score in scores],
            "arrayminus": [_reach(score.iqm, score.low) for score in scores],
        },
    }


def _reach(above: float | None, below: float | None) -> float:
    return 0.0 if above is None or below is None else max(above - below, 0.0)


def _table(points: Sequence[BudgetPoint]) -> Html:
    rows = [
        tag(
            "tr",
            number_cell(point.steps, f"{point.steps:,}"),
            number_cell(point.seconds, format_seconds(point.seconds)),
            tag("td", tag("a", point.study, href=f"../{point.study}/{PAGE_FILE}")),
            text_cell(point.label),
            number_cell(point.score.iqm, str(point.score)),
            number_cell(None if point.default is None else point.default.iqm, str(point.default or "")),
            text_cell(gain_words(point)),
            class_="winner" if point.pays else None,
        )
        for point in points
    ]
    heads = ["steps", "a run", "study", "advised", "score", "default", "gain over the best shorter budget"]
    marked = note("Marked are the budgets that no shorter one is as good as, as far as the test seeds can show.")
    return join([table("budgets-table", heads, rows), marked])


def _command(point: BudgetPoint) -> tuple[Html, Html]:
    return note(f"{called(point)} with {point.steps:,} steps:"), copied_command(f"train-{point.steps}", point.command)


def budgets_csv(points: Sequence[BudgetPoint]) -> list[list[object]]:
    """A head, then a row for each budget."""
    heads: list[object] = [
        "steps",
        "study",
        "advised",
        "score",
        "low",
        "high",
        "default",
        "seconds",
        "gain",
        "gain_low",
        "gain_high",
    ]
    rows: list[list[object]] = [heads]
    for point in points:
        gain = point.gain
        rows.append(
            [
                *(point.steps, point.study, point.label, point.score.iqm, point.score.low, point.score.high),
                *(None if point.default is None else point.default.iqm, point.seconds),
                *((None, None, None) if gain is None else (gain.iqm, gain.low, gain.high)),
            ]
        )
    return rows
