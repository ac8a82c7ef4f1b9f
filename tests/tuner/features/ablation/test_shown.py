"""An ablation on the page and in the terminal: what is measured is what is shown, and names are text."""

import io
from dataclasses import replace
from typing import Any

import pytest
from rich.console import Console

from tests.tuner.reporting.summaries import EVIL, full_study
from tuner.features.ablation.facts import ABLATION, Ablation, AblationStep, Change, CheckedRange, CheckedValue, LeftOut
from tuner.features.ablation.figures import ablation_figure
from tuner.features.ablation.range_figures import range_figures
from tuner.features.ablation.tables import AblationTable, RangesTable
from tuner.reporting.figures.style import DEFAULT, FAILED, FAINT, WINNER
from tuner.reporting.page import render_page

SEEDS = (11, 13, 15, 17, 19)


def around(middle: float) -> tuple[float, ...]:
    return tuple(middle + offset for offset in (-2.0, -1.0, 0.0, 1.0, 2.0))


NOTHING = (89.0, 89.0, 91.0, 90.0, 91.0)
LONG_CHANGES = (Change("optimizer.learning_rate_of_the_critic", 0.0001, 0.00534),)
FOUND = Ablation(
    "trial 8",
    SEEDS,
    around(20.0),
    (
        AblationStep((Change("optimizer.learning_rate", 1e-4, 1e-3),), around(90.0)),
        AblationStep(
            (Change("noise.kind", "white", "red"), Change("noise.sigma", 0.1, 0.3)), (89.0, 89.0, 91.0, 90.0, 91.0)
        ),
        AblationStep((Change("agent.gamma", 0.99, 0.98),), around(70.0)),
    ),
    (LeftOut((1, 2), (91.0, 89.0, 92.0, 90.0, 90.0)),),
    (Change("policy.eps", 0.05, 0.0501),),
    num_runs=63,
    num_failed=2,
    seconds=75.0,
)

RANGED = replace(
    FOUND,
    ranges=(
        CheckedRange(
            "agent.gamma",
            0.98,
            0.8,
            0.9999,
            (
                CheckedValue(0.9, around(40.0)),
                CheckedValue(0.97, around(70.0)),
                CheckedValue(0.99, around(69.0)),
            ),
        ),
    ),
)


def test_every_configuration_of_the_path_is_drawn_with_its_seeds() -> None:
    figure: Any = ablation_figure(FOUND)
    line, *traces = figure["data"]
    assert line["x"] == [20.0, 90.0, 90.0, 70.0]
    assert line["y"] == [3, 2, 1, 0]
    points, middles = traces[::2], traces[1::2]
    assert [list(trace["x"]) for trace in points] == [list(FOUND.default), *(list(step.scores) for step in FOUND.steps)]
    assert [trace["marker"]["color"] for trace in middles] == [DEFAULT, WINNER, FAINT, FAILED]
    assert all(trace["error_x"]["array"][0] > 0.0 for trace in middles)
    assert figure["layout"]["yaxis"]["ticktext"] == [
        "+ agent.gamma",
        "+ noise.kind and<br>noise.sigma",
        "+ optimizer.<br>learning_rate",
        "default",
    ]


def test_the_title_goes_by_the_verdict() -> None:
    """Test scores of 80 to 84 against 20 to 24; with these exchanged the default is better."""
    better = full_study()
    exchanged = {"trial 8": "default", "default": "trial 8"}
    runs = [
        replace(run, label=exchanged.get(run.label, run.label)) if run.stage == "test" else run for run in better.runs
    ]
    titles = ("Which changes made the winner better", "What the changes of the winner are worth")
    for summary, title, other in ((better, *titles), (replace(better, runs=tuple(runs)), *titles[::-1])):
        for found in (None, FOUND):
            page = render_page(replace(summary, facts={ABLATION.key: found}))
            assert title in page
            assert other not in page


def test_the_page_says_what_came_of_it() -> None:
    page = render_page(full_study(facts={ABLATION.key: FOUND}))
    text = page.partition('id="ablation"')[2].partition("</section>")[0]
    assert "optimizer.learning_rate 0.0001 -&gt; 0.001 brought 140 %" in text
    assert "agent.gamma 0.99 -&gt; 0.98 made it worse (-20" in text
    assert (
        "Left at its default throughout, as it moved by less than 1 % of its range: policy.eps 0.05 -&gt; 0.0501."
        in text
    )
    assert "2 of 63 runs failed" in text
    assert "63 runs, 1 min 15 s in all" in text
    assert "That was the winner then" not in text
    assert "That was the winner then; now it is trial 8." in render_page(
        full_study(facts={ABLATION.key: replace(FOUND, winner="trial 2")})
    )


def test_values_that_were_checked_are_drawn_with_the_interval_of_the_winner() -> None:
    figure: Any = range_figures(RANGED, {"agent.gamma": "one_minus"})["range-figure-1"]
    line, held, fallen, winner = figure["data"]
    assert line["x"] == pytest.approx([0.1, 0.03, 0.02, 0.01])
    assert line["y"] == [40.0, 70.0, 70.0, 69.0]
    assert held["x"] == pytest.approx([0.03, 0.01])
    assert fallen["x"] == pytest.approx([0.1])
    assert fallen["marker"]["color"] == FAILED
    assert winner["x"] == pytest.approx([0.02])
    assert winner["marker"]["color"] == WINNER
    band, limit = figure["layout"]["shapes"]
    assert band["y0"] < 70.0 < band["y1"]
    assert limit["y0"] == pytest.approx(min(band["y0"], 70.0 - 0.05 * 50.0))
    assert figure["layout"]["xaxis"]["autorange"] == "reversed"


def test_the_page_says_how_far_each_parameter_may_move() -> None:
    page = render_page(full_study(facts={ABLATION.key: RANGED}))
    text = page.partition('id="checked-ranges"')[2].partition("</section>")[0]
    assert "agent.gamma may lie between 0.97 and 0.99 (checked by runs); at 0.9 the score falls by 30 [" in text
    assert "what lies above 0.99 was not checked" in text
    assert "3 values checked by 15 runs" in text
    assert 'id="range-figure-1"' in text
    assert "Not measured yet" not in text
    before = render_page(full_study(facts={ABLATION.key: FOUND}))
    assert "Not measured yet: tuner ablate poles ranges=true" in before.partition('id="checked-ranges"')[2]


@pytest.mark.parametrize("width", [80, 120])
def test_the_table_of_ranges_has_a_row_for_each_parameter(width: int) -> None:
    console = Console(file=io.StringIO(), width=width)
    console.print(RangesTable(RANGED))
    lines = console.file.getvalue().splitlines()  # type: ignore[attr-defined]
    assert all(len(line) <= width for line in lines)
    assert any(line.split()[:4] == ["agent.gamma", "0.98", "0.97", "0.99"] for line in lines)


def test_without_one_the_page_says_how_to_have_it() -> None:
    assert "Not measured yet: tuner ablate poles" in render_page(full_study())
    assert "tuner ablate" not in render_page(full_study(winner_label=None))


def test_names_and_values_are_text() -> None:
    step = AblationStep((Change(f"agent.{EVIL}", EVIL, 1.0),), around(90.0))
    page = render_page(
        full_study(facts={ABLATION.key: replace(FOUND, winner=EVIL, steps=(step,), left_out=(), skipped=())})
    )
    assert "<script>alert" not in page
    console = Console(file=io.StringIO(), width=200)
    console.print(AblationTable(replace(FOUND, winner="[red]trial", steps=(step,), left_out=())))
    assert "[red]trial" in console.file.getvalue()  # type: ignore[attr-defined]


def test_in_a_narrow_terminal_names_are_folded_and_not_cut() -> None:
    console = Console(file=io.StringIO(), width=60)
    named = replace(FOUND, steps=tuple(replace(one, changes=LONG_CHANGES) for one in FOUND.steps))
    console.print(AblationTable(named))
    console.print(RangesTable(RANGED))
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert all(len(line) <= 60 for line in text.splitlines())
    assert "…" not in text


@pytest.mark.parametrize("width", [80, 120])
def test_the_table_has_a_row_for_each_parameter(width: int) -> None:
    console = Console(file=io.StringIO(), width=width)
    console.print(AblationTable(FOUND))
    lines = console.file.getvalue().splitlines()  # type: ignore[attr-defined]
    assert all(len(line) < width for line in lines)
    rows = [line.split() for line in lines]
    values, numbers = ["0.0001", "->", "0.001"], ["90.0", "+70", "[+70,", "+70]", "140", "%"]
    expected = ["1", "optimizer.learning_rate", *(values if width > 80 else ()), *numbers]
    assert expected in [row[: len(expected)] for row in rows]
    assert (["noise.sigma", "0.1", "->", "0.3"] in rows) == (width > 80)
    assert (values in rows) == (["0.1", "->", "0.3"] in rows) == (width == 80)
    assert any("no difference" in line for line in lines) == (width > 80)
