"""Figures of scores: every point of them by hand."""

from dataclasses import replace

from tests.tuner.reporting.summaries import full_study, run
from tuner.reporting.figures import scores as figures
from tuner.results.verdict import verdict
from tuner.trial.messages import Outcome


def test_the_best_line_only_rises_and_failures_are_marked() -> None:
    scores = [5.0, 3.0, 8.0, 8.0, 1.0]
    runs = [run(f"trial {n}", "screen", score) for n, score in enumerate(scores)]
    runs += [
        run("trial 5", "screen", 6.0, outcome=Outcome.PRUNED),
        run("trial 6", "screen", None, outcome=Outcome.CRASHED, curve=()),
    ]
    drawn = figures.history_figure(full_study(runs=tuple(runs), winner_label="trial 3"))
    assert drawn is not None
    traces = {trace["name"]: (trace["x"], trace["y"]) for trace in drawn["data"]}
    assert traces == {
        "best so far": ([0, 2, 4], [5.0, 8.0, 8.0]),
        "complete": ([0, 1, 2, 4], [5.0, 3.0, 8.0, 1.0]),
        "pruned, at its last report": ([5], [6.0]),
        "failed": ([6], [1.0]),  # it has no value: at the bottom
        "the winner": ([3], [8.0]),
    }


def test_the_comparison_shows_every_seed_and_the_interval() -> None:
    summary = full_study()
    found = verdict(summary)
    drawn = figures.comparison_figure(summary, found)
    assert drawn is not None
    default_points, default_middle, winner_points, winner_middle = drawn["data"]
    assert default_points["x"] == [20.0, 21.0, 22.0, 23.0, 24.0]
    assert winner_points["x"] == [80.0, 81.0, 82.0, 83.0, 84.0]
    assert (default_middle["x"], winner_middle["x"]) == ([22.0], [82.0])
    assert found.winner is not None
    assert found.winner.high is not None
    assert winner_middle["error_x"]["array"] == [found.winner.high - 82.0]
    assert len(set(winner_points["y"])) == 5  # equal scores would not hide each other


def test_the_comparison_shows_baselines() -> None:
    known = [run("experiment known", "test", 40.0 + seed, seed=seed) for seed in range(5)]
    summary = full_study()
    summary = replace(summary, runs=(*summary.runs, *known), baselines=("experiment known",))
    drawn = figures.comparison_figure(summary, verdict(summary))
    assert drawn is not None
    assert drawn["layout"]["yaxis"]["ticktext"] == ["default", "experiment known", "trial 8"]
    assert drawn["data"][2]["x"] == [40.0, 41.0, 42.0, 43.0, 44.0]
    assert drawn["data"][3]["x"] == [42.0]


def test_figures_mark_a_trial_with_the_default_configuration() -> None:
    summary = full_study(default_label="trial 8", starts={"trial 8": "default"})
    drawn = figures.comparison_figure(summary, verdict(summary))
    assert drawn is not None
    assert drawn["layout"]["yaxis"]["ticktext"] == ["trial 8 (default)"]
    assert drawn["data"][0]["hovertemplate"].startswith("trial 8 (default): ")
    history, curves = figures.history_figure(summary), figures.curves_figure(summary)
    assert history is not None
    assert curves is not None
    assert history["data"][-1]["customdata"][0].startswith("trial 8 (default): 80<br>")
    assert curves["data"][-1]["name"] == "trial 8 (default), mean of 5 test seeds"
    assert "trial 8 (default), seed 1" in curves["data"][0]["customdata"]
    assert "trial 7, seed 1" in curves["data"][0]["customdata"]


def test_the_mean_curve_is_over_seeds() -> None:
    tests = [run("trial 8", "test", 1.0, seed=seed, curve=((0.5, seed), (1.0, 10.0 * seed))) for seed in (1.0, 3.0)]
    drawn = figures.curves_figure(full_study(runs=(*full_study().stage("screen"), *tests)))
    assert drawn is not None
    mean = drawn["data"][-1]
    assert mean["name"] == "trial 8, mean of 2 test seeds"
    assert (mean["x"], mean["y"]) == ([0.5, 1.0], [2.0, 20.0])
    assert drawn["layout"]["xaxis"]["tickformat"] == ".0%"
