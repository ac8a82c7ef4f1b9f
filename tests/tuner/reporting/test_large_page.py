"""The page of a study of thousands of trials: what it leaves out, and what it must not."""

import random
import re
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from tests.tuner.reporting.summaries import full_study
from tuner.reporting.downsampling import MOST_LINES, MOST_POINTS, MOST_ROWS, thinned
from tuner.reporting.page import make_figures, render_page
from tuner.results.columns import trials_csv
from tuner.results.records import RunRecord, Scalar, StudySummary
from tuner.results.summary_json import summary_from_json, summary_to_json
from tuner.results.verdict import verdict
from tuner.trial.messages import Outcome

MOST_BYTES = 5_000_000


def large_study(num_trials: int) -> StudySummary:
    """Half of its trials complete, a third pruned, the others failed; trial 10 is the winner and not on top."""
    rng, runs = random.Random(0), []
    for number in range(num_trials):
        outcome = (Outcome.COMPLETE, Outcome.PRUNED, Outcome.COMPLETE, Outcome.PRUNED, Outcome.COMPLETE)[number % 5]
        outcome = Outcome.DIVERGED if number % 6 == 5 else outcome
        curve = tuple((point / 9, 100.0 * rng.random()) for point in range(1, 10))
        params: dict[str, Scalar] = {f"agent.parameter_{index}": rng.random() for index in range(6)}
        reason = "" if outcome is Outcome.COMPLETE else f"{outcome} with {rng.random()} at step {rng.random()}"
        folder = f"studies/large/screen/{number}"
        value = curve[-1][1] if number else -1.0
        about = ("screen", f"trial {number}", 1, params, outcome, value, reason, curve, 100.0 * rng.random(), folder)
        runs.append(RunRecord(number, *about))
    winner = runs[10]
    runs += [replace(winner, stage="test", number=seed, seed=seed, value=90.0 + seed) for seed in range(5)]
    runs += [replace(winner, stage="test", number=5, label="default", seed=0, params={}, value=50.0)]
    shares = {path: 0.1 + index / 100 for index, path in enumerate(winner.params)}
    return full_study(runs=tuple(runs), winner_label="trial 10", importances=shares, importance_null={})


def test_a_page_of_thousands_of_trials_is_small_and_says_what_it_leaves_out() -> None:
    summary = large_study(3000)
    text = render_page(summary)
    assert len(text.encode()) < MOST_BYTES
    rows = text.partition('id="trial-table"')[2].partition("</table>")[0]
    assert rows.count("<tr") == 1 + MOST_ROWS
    assert "These are the best 1,000 of 3,000 trials; trials.csv has all." in text
    assert len(re.findall("1,000 of [0-9,]+ trials are drawn", text)) == 2
    assert len(re.findall("300 of [0-9,]+ trials are drawn", text)) == 2
    assert trials_csv(summary).count("\n") == 1 + 3006
    assert summary_from_json(summary_to_json(summary)) == summary


def test_what_is_drawn_of_a_large_study() -> None:
    summary = large_study(3000)
    drawings = make_figures(summary, verdict(summary))
    history = {trace["name"]: trace for trace in drawings["history-figure"]["data"]}
    complete = [run for run in summary.stage("screen") if run.complete]
    best, expected = -1e9, []
    for run in complete:
        if (run.score or 0.0) > best:
            best = run.score or 0.0
            expected.append((run.number, best))
    line = history["best so far"]
    assert list(zip(line["x"], line["y"], strict=True))[:-1] == expected, "every improvement, none thinned away"
    assert (line["x"][-1], line["y"][-1]) == (complete[-1].number, best)
    assert {number for number, _ in expected} <= {*history["complete"]["x"], *history["the winner"]["x"]}
    assert history["the winner"]["x"] == [10]
    drawn = sum(len(trace["x"]) for name, trace in history.items() if name != "best so far")
    assert MOST_POINTS <= drawn <= MOST_POINTS + len(expected) + 1
    share = len(history["complete"]["x"]) / drawn
    assert abs(share - len(complete) / 3000) < 0.02, "thinning keeps the share of each kind"
    parallel = drawings["parallel-figure"]["data"]
    assert sum(trace["x"].count(None) for trace in parallel) <= MOST_LINES + 1
    assert [trace["x"].count(None) for trace in parallel if trace.get("name") == "the winner"] == [1]
    curves = next(trace for trace in drawings["curves-figure"]["data"] if trace["name"] == "screening trials")
    assert curves["x"].count(None) == MOST_LINES
    slices = [drawing for name, drawing in drawings.items() if name.startswith("slice-figure-")]
    assert [one["data"][0]["marker"]["symbol"].count("star") for one in slices] == [1] * len(slices)
    assert slices


def test_a_study_of_hundreds_is_drawn_whole() -> None:
    summary = large_study(MOST_LINES)
    text = render_page(summary)
    assert "are drawn" not in text
    assert text.partition('id="trial-table"')[2].partition("</table>")[0].count("<tr") == 1 + MOST_LINES
    assert thinned(summary.runs, 1)[0] is summary.runs[0]


def num_calls(work: Callable[[], Any]) -> int:
    """Calls of Python functions that some work takes: time that is the same on any machine."""
    counts = {"call": 0}

    def count(frame: object, event: str, argument: object) -> None:
        if event == "call":
            counts["call"] += 1

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        work()
    finally:
        sys.setprofile(before)
    return counts["call"]


def test_the_work_for_a_page_grows_no_faster_than_the_study() -> None:
    small, large = (num_calls(partial(render_page, large_study(size))) for size in (200, 800))
    assert large < 4 * small
