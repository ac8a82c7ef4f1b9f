"""Figures of all parameters together."""

import pytest

from tests.tuner.reporting.declared import declared_study
from tests.tuner.reporting.summaries import full_study, run
from tuner.reporting.figures import study_figures
from tuner.reporting.page import render_page
from tuner.trial.messages import Outcome


def test_lines_and_bars_are_spread_as_the_space_was() -> None:
    drawn = study_figures.parallel_figure(declared_study())
    assert drawn is not None
    lines = next(trace for trace in drawn["data"] if trace["name"] == "the winner")  # trial 8
    entropy, gamma, rate, batch, unknown, score = lines["y"][:6]
    assert entropy == pytest.approx((0.05 - 0.0005) / (0.1 - 0.0005))
    assert gamma == pytest.approx(1 / 3)  # 0.99 is the first of three factors of ten from 0.9 to 0.9999
    assert (rate, batch, unknown, score) == pytest.approx((0.5, 0.5, 0.5, 1.0))
    labels = [label["text"] for label in drawn["layout"]["annotations"]]
    assert labels[3:6] == ["0.9", "0.997", "0.9999"]
    bars = render_page(declared_study()).partition('id="range-table"')[2].partition("</table>")[0]
    row = next(row for row in bars.split("<tr") if "<td>a.gamma</td>" in row)
    assert "left:33.3%" in row  # the mark of the winner


def test_the_lines_of_trials_end_at_their_scores() -> None:
    runs = [
        run(f"trial {n}", "screen", float(n), params={"a.rate": 10.0 ** -(n % 3), "a.kind": "xy"[n % 2]})
        for n in range(8)
    ]
    runs.append(run("trial 8", "screen", None, params={"a.rate": 1.0}, outcome=Outcome.CRASHED, curve=()))
    importances = {"a.rate": 0.9, "a.kind": 0.1}
    drawn = study_figures.parallel_figure(full_study(runs=tuple(runs), importances=importances, winner_label="trial 7"))
    assert drawn is not None
    assert drawn["layout"]["xaxis"]["ticktext"] == ["a.rate", "a.kind", "score"]
    traces = {trace.get("name"): trace for trace in drawn["data"]}
    assert traces["the winner"]["y"] == [0.5, 1.0, 1.0, None]  # 0.1 is half-way from 0.01 to 1
    assert traces["pruned or failed"]["y"] == [1.0, None, None, None]
    assert len(traces["best quarter"]["y"]) == 4  # trial 6
    assert "best tenth" not in traces, "that is trial 7, which is drawn as the winner"
    labels = [label["text"] for label in drawn["layout"]["annotations"]]
    assert labels[:3] == ["0.01", "0.1", "1"]
    assert labels[3:5] == ["x", "y"]
