"""The table at the end of a study."""

import io
from dataclasses import replace

from rich.console import Console

from tests.tuner.reporting.summaries import full_study, run
from tuner.reporting.figures.parameter_effects import slice_figures
from tuner.reporting.figures.study_figures import parallel_figure
from tuner.reporting.final import FinalTable
from tuner.results.findings import estimate
from tuner.results.insights.safe_ranges import safe_ranges
from tuner.results.records import StudySummary
from tuner.results.verdict import verdict
from tuner.trial.messages import Outcome


def text_of(summary: StudySummary, width: int) -> str:
    console = Console(width=width, file=io.StringIO(), force_terminal=False)
    console.print(FinalTable(summary))
    assert isinstance(console.file, io.StringIO)
    text = console.file.getvalue()
    assert max((len(line) for line in text.splitlines()), default=0) <= width
    return text


def test_FinalTable_shows_the_best_first_and_fits() -> None:
    wide = text_of(full_study(), 120)
    rows = [line.split() for line in wide.splitlines() if line.startswith(" trial ")]
    assert rows[0] == ["trial", "screen", "confirm", "learning_rate", "gamma"]
    assert rows[1] == ["trial", "8", "*", "80", "70", "0.001", "0.98"]
    assert rows[2] == ["trial", "7", "70", "70", "0.001", "0.98"]
    assert rows[3] == ["trial", "6", "60", "0.001", "0.98"]
    assert "no room" not in wide
    interval = str(estimate([20.0, 21.0, 22.0, 23.0, 24.0])).split()[1:]
    expected = ["default", "22.0", *interval, "24", "23", "22", "21", "20"]
    assert expected in [line.split() for line in wide.splitlines()]
    assert "1 diverged" in wide
    assert "RuntimeError: </script>" in wide
    narrow = text_of(full_study(), 48)
    assert "no room for agent.gamma" in narrow
    assert "trial 8: optimizer.learning_rate=0.001, agent.gamma=0.98" in " ".join(narrow.split())
    assert "trial 8:" not in wide


def test_a_trial_with_the_default_configuration_is_marked() -> None:
    runs = tuple(one for one in full_study().runs if one.label != "default")
    wide = text_of(full_study(runs=runs, starts={"trial 8": "default", "trial 7": "published"}), 120)
    labels = [line.partition("  ")[0].strip() for line in wide.splitlines()]
    assert [label for label in labels if label.startswith(("trial 8", "trial 7"))] == [
        "trial 8 (default) *",
        "trial 7",
        "trial 8 (default) *",
    ]
    narrow = text_of(full_study(runs=runs, starts={"trial 8": "default"}), 48)
    assert "trial 8 (default): optimizer" in " ".join(narrow.split()), "its values, which the table has no room for"


def test_an_order_that_chance_explains_is_not_shown() -> None:
    noise = full_study(importance_null={"optimizer.learning_rate": 0.8, "agent.gamma": 0.4})
    params = {"agent.gamma": 0.98, "optimizer.learning_rate": 1e-3}  # a space is in the order of its paths
    noise = replace(noise, runs=tuple(replace(one, params=params if one.params else {}) for one in noise.runs))
    assert noise.weights == {}
    told = replace(noise, importance_null=full_study().importance_null)
    for summary, order in (
        (noise, ["agent.gamma", "optimizer.learning_rate"]),
        (told, ["optimizer.learning_rate", "agent.gamma"]),
    ):
        heads = next(line.split() for line in text_of(summary, 120).splitlines() if line.startswith(" trial "))
        assert heads[-2:] == [name.partition(".")[2] for name in order], "the groups stand above"
        values = {"optimizer.learning_rate": "0.001", "agent.gamma": "0.98"}
        assert ", ".join(f"{name}={values[name]}" for name in order) in verdict(summary).sentence
        assert [one.path for one in safe_ranges(summary)] == order
        assert [one["layout"]["xaxis"]["title"]["text"].replace("<br>", "") for one in slice_figures(summary)] == order
        lines = parallel_figure(summary)
        assert lines is not None
        assert [name.replace("<br>", "") for name in lines["layout"]["xaxis"]["ticktext"][:2]] == order


def test_FinalTable_of_few_test_seeds_has_no_interval() -> None:
    runs = [record for record in full_study().runs if record.stage != "test" or record.seed < 2]
    text = text_of(full_study(runs=tuple(runs)), 80)
    assert "too few seeds" in text
    assert "[" not in text.partition("On test seeds")[2].partition("Failed")[0]


def test_FinalTable_names_test_runs_without_a_score() -> None:
    lost = [run("default", "test", None, seed=9, outcome=Outcome.CRASHED, reason="boom")]
    text = text_of(full_study(runs=(*full_study().runs, *lost)), 120)
    assert "(1 without a score)" in text
    assert "none of 1 runs has a score" in text_of(full_study(runs=tuple(lost)), 80)


def test_FinalTable_of_an_empty_study_is_empty() -> None:
    assert text_of(full_study(runs=()), 80).strip() == ""
