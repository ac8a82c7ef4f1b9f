"""Figures of parameters: axes, winners and chance."""

import re
from dataclasses import replace
from typing import Any

from tests.tuner.reporting.declared import declared_study
from tests.tuner.reporting.summaries import full_study, run
from tuner.reporting.figures import parameter_effects as parameter_figures
from tuner.reporting.page import render_page


def test_parameter_axes_suit_their_values() -> None:
    columns: dict[str, list[Any]] = {
        "a.rate": [1e-5, 1e-2],
        "a.size": [16, 256],
        "a.kind": ["x", "y"],
        "a.share": [0.1, 0.3],
    }
    runs = [
        run(f"trial {n}", "screen", float(n), params={path: values[n % 2] for path, values in columns.items()})
        for n in range(8)
    ]
    drawn = parameter_figures.slice_figures(full_study(runs=tuple(runs), importances=dict.fromkeys(columns, 1.0)))
    axes = [one["layout"]["xaxis"] for one in drawn]
    assert [axis.get("type") for axis in axes] == ["log", "log", "category", None]
    assert axes[1]["ticktext"] == ["16", "256"]
    assert axes[0]["dtick"] == 1, "a tick for each power of ten"


def test_an_axis_with_one_power_of_ten_has_further_ticks() -> None:
    runs = [run(f"trial {n}", "screen", float(n), params={"a.rate": (0.0002, 0.005)[n % 2]}) for n in range(8)]
    (drawn,) = parameter_figures.slice_figures(full_study(runs=tuple(runs), importances={"a.rate": 1.0}))
    assert drawn["layout"]["xaxis"]["type"] == "log"
    assert drawn["layout"]["xaxis"]["tickvals"] == [0.0002, 0.0005, 0.001, 0.002, 0.005]
    assert drawn["layout"]["xaxis"]["ticktext"] == ["0.0002", "0.0005", "0.001", "0.002", "0.005"]
    assert "dtick" not in drawn["layout"]["xaxis"], "0.001 alone would not say where the axis begins and ends"


def test_axes_are_those_of_the_declared_space() -> None:
    drawn = parameter_figures.slice_figures(declared_study())
    axes = [one["layout"]["xaxis"] for one in drawn]
    assert [axis.get("type") for axis in axes] == [None, "log", "log", "category", "log"]
    assert axes[1]["autorange"] == "reversed"
    assert list(zip(axes[1]["tickvals"], axes[1]["ticktext"], strict=True)) == [
        (0.1, "0.9"),
        (0.01, "0.99"),
        (0.001, "0.999"),
        (0.0001, "0.9999"),
    ]
    assert drawn[1]["data"][0]["x"][:3] == [0.1, 0.0001, 0.01]
    assert axes[2]["tickvals"] == [0.02, 0.05]
    assert "dtick" not in axes[2]  # there is no power of ten between 0.02 and 0.08
    assert axes[3]["categoryarray"] == ["32", "64", "128"]
    assert drawn[3]["data"][0]["x"][:3] == ["128", "32", "64"]


def test_the_winner_of_a_choice_stands_where_numbers_do() -> None:
    params = {"agent.gamma": 0.98, "agent.activation": "tanh"}
    runs = [replace(one, params=params) for one in full_study().stage("screen")]
    table = render_page(full_study(runs=tuple(runs))).partition('id="range-table"')[2].partition("</table>")[0]
    cells = [re.findall(r"<td[^>]*>", row)[1] for row in table.split("<tr")[2:]]
    assert len(cells) == 2
    assert not [cell for cell in cells if "number" in cell], "numbers alone would be to the right"


def test_chance_is_never_marked_beyond_all() -> None:
    """Reports of earlier versions hold such numbers."""
    drawn = parameter_figures.importance_figure(full_study(importance_null={"agent.gamma": 1.7}))
    assert drawn["data"][1]["x"] == [1.0, None]
