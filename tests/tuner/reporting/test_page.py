import base64
import gzip
import hashlib
import json
import re
import sys
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from tests.tuner.reporting.summaries import EVIL, full_study, run
from tuner.errors import UserError
from tuner.reporting.figures import parameter_effects as parameter_figures
from tuner.reporting.figures import scores as figures
from tuner.reporting.figures import study_figures as study_figures
from tuner.reporting.figures import style
from tuner.reporting.figures.value_axis import AxisScale
from tuner.reporting.page import render_page, write_page
from tuner.results.records import StudySummary
from tuner.results.summary_json import summary_from_json
from tuner.results.verdict import verdict
from tuner.support.plain_text import shortened
from tuner.trial.messages import Outcome


class Parsed(HTMLParser):
    """Elements and text of a page; scripts apart."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []
        self.scripts: list[str] = []
        self._inside = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        self._inside = tag

    def handle_endtag(self, tag: str) -> None:
        self._inside = ""

    def handle_data(self, data: str) -> None:
        (self.scripts if self._inside == "script" else self.text).append(data)

    def ids(self) -> list[str]:
        return [attributes["id"] or "" for _, attributes in self.elements if "id" in attributes]

    def figures(self) -> dict[str, Any]:
        """As page.js reads them: texts to hover in their places."""
        content = json.loads(self.scripts[0], parse_constant=pytest.fail)
        drawings: dict[str, Any] = content["figures"]
        for trace in (trace for drawing in drawings.values() for trace in drawing["data"] if "customdata" in trace):
            trace["customdata"] = [None if place is None else content["texts"][place] for place in trace["customdata"]]
        return drawings

    def programs(self) -> list[str]:
        """The scripts that run, Plotly unpacked."""
        _, packed, *own = self.scripts
        return [gzip.decompress(base64.b64decode(packed)).decode(), *own]


@pytest.fixture(scope="module")
def page() -> Parsed:
    return Parsed(render_page(full_study()))


def test_sections_stand_in_the_order_of_the_readers_questions(page: Parsed) -> None:
    order = [
        "verdict",
        "comparison",
        "ranges",
        "importance",
        "interactions",
        "parallel",
        "history",
        "curves",
        "more",
        "trials",
    ]
    order += ["failures", "reproduce", "cost", "about"]
    assert [name for name in page.ids() if name in order] == order


def test_the_verdict_comes_first(page: Parsed) -> None:
    text = "".join(page.text)
    sentence = verdict(full_study()).sentence
    assert sentence in text
    assert text.index(sentence) < text.index("The search")
    assert "Selection optimism -12" in text  # 70 on select seeds, 82 on test seeds


def test_the_trial_table_has_every_trial_and_sortable_values(page: Parsed) -> None:
    rows = render_page(full_study()).partition('id="trial-table"')[2].partition("</table>")[0].split("<tr")[2:]
    assert len(rows) == 12
    assert 'class="winner"' in rows[0]
    assert 'data-value="80.0"' in rows[0]
    assert ">diverged<" in rows[-1]


def test_failures_have_kind_reason_and_folder(page: Parsed) -> None:
    failures = render_page(full_study()).partition('id="failures"')[2].partition("</section>")[0]
    assert ">crashed<" in failures
    assert ">diverged<" in failures
    assert "the loss became nan" in failures
    assert "pruned" not in failures


def test_the_command_is_there_to_copy(page: Parsed) -> None:
    assert "tuner train agent=dqn optimizer.learning_rate=0.001 'env.id=my:Env-v0'" in page.text
    assert ("button", "command") in [(name, attributes.get("data-target")) for name, attributes in page.elements]


def test_who_repeats_the_study_finds_what_to_know(page: Parsed) -> None:
    about = render_page(full_study()).partition('id="about"')[2].partition("</section>")[0]
    rows = dict(re.findall(r'<th scope="row">(.*?)</th><td class="wrap">(.*?)</td>', about))
    assert rows["How was it searched?"] == "TPESampler (multivariate true) and MedianPruner"
    assert rows["On which seeds was it tuned?"] == "1, 50, 51"
    assert rows["On which seeds was it tested?"] == "0, 1, 2, 3, 4"
    assert rows["Are these disjoint?"] == "no: both have 1"
    assert rows["With what code?"] == "3f2a9c1b04de with changes"
    assert rows["optimizer.learning_rate"] == "0.0001 to 0.01, logarithmic"


def test_nothing_is_loaded_and_only_our_scripts_may_run(page: Parsed) -> None:
    policy = next(a["content"] for name, a in page.elements if a.get("http-equiv") == "Content-Security-Policy")
    assert policy is not None
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    hashes = [base64.b64encode(hashlib.sha256(source.encode()).digest()).decode() for source in page.programs()]
    assert re.findall(r"'sha256-([^']+)'", policy) == hashes
    assert len(hashes) == 2
    for name, attributes in page.elements:
        assert name not in {"link", "img", "iframe", "object", "base", "form"}
        assert not {"src", "href", "action"} & attributes.keys()
        assert not [key for key in attributes if key.startswith("on")]
    styles = render_page(full_study()).partition("<style>")[2].partition("</style>")[0]
    assert "url(" not in styles
    assert "@import" not in styles


def test_whatever_comes_from_users_is_text() -> None:
    params = {f"agent.{EVIL}": EVIL}
    runs = [run(f"trial {n}", "screen", float(n), params=params, reason=EVIL, folder=EVIL) for n in range(9)]
    runs += [run("trial 9", "screen", None, params=params, outcome=Outcome.CRASHED, reason=EVIL, folder=EVIL, curve=())]
    runs += [run("trial 8", "test", 1.0, params=params, scores={EVIL: 1.0}), run(EVIL, "test", 1.0)]
    summary = StudySummary(
        *(EVIL, EVIL, EVIL, EVIL, EVIL),
        runs=tuple(runs),
        winner_label="trial 8",
        default_label=EVIL,
        importances={f"agent.{EVIL}": 1.0},
        notes=(EVIL,),
        versions={EVIL: EVIL},
        retrain_command=EVIL,
        budget={EVIL: EVIL},
    )
    text = render_page(summary)
    parsed = Parsed(text)
    assert [name for name, _ in parsed.elements].count("script") == 3  # data, Plotly, ours
    assert "<script>alert" not in text
    assert "".join(parsed.text).count(EVIL) >= 10
    assert "<script" not in json.dumps(parsed.figures())  # Plotly reads HTML in its labels
    assert "<" not in parsed.scripts[0]  # nothing in the data can end its element


def test_importances_need_eight_complete_trials() -> None:
    few = full_study(runs=tuple(run(f"trial {n}", "screen", float(n)) for n in range(7)))
    text = render_page(few)
    assert "7 of at least 8 trials are complete" in text
    assert "importance-figure" not in text
    assert "has not worked out importances" in render_page(full_study(importances={}))


@pytest.mark.parametrize(
    ("runs", "expected"),
    [
        ((), "No trial has finished yet (none started)."),
        ((run("trial 0", "screen", None, outcome=None, curve=()),), "No trial has finished yet (1 running)."),
        (
            (run("trial 0", "screen", None, outcome=Outcome.CRASHED, reason="no GPU", curve=()),),
            "The only trial failed (1 crashed), so there is no result. Most frequent reason (1 x): no GPU",
        ),
    ],
)
def test_a_study_without_results_has_a_page_too(runs: Any, expected: str) -> None:
    text = "".join(Parsed(render_page(full_study(runs=runs, winner_label=None, retrain_command=""))).text)
    assert expected in text
    assert "There are no finished test runs to compare yet." in text
    assert "No trial has a score." in text
    assert "There is no winner yet." in text


def test_values_that_are_not_finite_leave_gaps() -> None:
    broken = run("trial 0", "screen", float("nan"), outcome=Outcome.DIVERGED, curve=((0.5, 1.0), (1.0, float("inf"))))
    drawings = Parsed(render_page(full_study(runs=(*full_study().runs, broken)))).figures()
    background = drawings["curves-figure"]["data"][0]
    assert background["y"][-3:] == [1.0, None, None]


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


def test_the_mean_curve_is_over_seeds() -> None:
    tests = [run("trial 8", "test", 1.0, seed=seed, curve=((0.5, seed), (1.0, 10.0 * seed))) for seed in (1.0, 3.0)]
    drawn = figures.curves_figure(full_study(runs=(*full_study().stage("screen"), *tests)))
    assert drawn is not None
    mean = drawn["data"][-1]
    assert mean["name"] == "trial 8, mean of 2 test seeds"
    assert (mean["x"], mean["y"]) == ([0.5, 1.0], [2.0, 20.0])
    assert drawn["layout"]["xaxis"]["tickformat"] == ".0%"


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
    assert "dtick" not in drawn["layout"]["xaxis"], "0.001 alone would not say where the axis begins and ends"


DECLARED: dict[str, tuple[str, list[Any]]] = {
    "a.entropy": ("linear", [0.0005, 0.1, 0.05]),
    "a.gamma": ("one_minus", [0.9, 0.9999, 0.99]),
    "a.rate": ("log", [0.02, 0.08, 0.04]),
    "a.batch": ("category", [128, 32, 64]),
    "a.unknown": ("", [1.0, 100.0, 10.0]),
}


def declared_study() -> StudySummary:
    runs = [
        run(f"trial {n}", "screen", float(n), params={path: values[n % 3] for path, (_, values) in DECLARED.items()})
        for n in range(9)
    ]
    scales = {path: scale for path, (scale, _) in DECLARED.items() if scale}
    importances = {path: 0.1 * (9 - n) for n, path in enumerate(DECLARED)}
    return full_study(runs=tuple(runs), importances=importances, importance_null={}, scales=scales)


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
    assert "dtick" not in axes[2]  # there is no power of ten between 0.02 and 0.08
    assert axes[3]["categoryarray"] == ["32", "64", "128"]
    assert drawn[3]["data"][0]["x"][:3] == ["128", "32", "64"]


def test_lines_and_bars_are_spread_as_the_space_was() -> None:
    drawn = study_figures.parallel_figure(declared_study())
    assert drawn is not None
    lines = next(trace for trace in drawn["data"] if trace["name"] == "the winner")  # trial 8
    entropy, gamma, rate, batch, unknown, score = lines["y"][:6]
    assert entropy == pytest.approx((0.05 - 0.0005) / (0.1 - 0.0005))
    assert gamma == pytest.approx(1 / 3)  # 0.99 is the first of three factors of ten from 0.9 to 0.9999
    assert (rate, batch, unknown, score) == pytest.approx((0.5, 0.5, 0.5, 1.0))
    labels = [label["text"] for label in drawn["layout"]["annotations"]]
    assert labels[3:6] == ["0.9", "0.9968", "0.9999"]
    bars = render_page(declared_study()).partition('id="range-table"')[2].partition("</table>")[0]
    row = next(row for row in bars.split("<tr") if 'title="a.gamma"' in row)
    assert "left:33.3%" in row  # the mark of the winner


def test_a_scale_that_has_no_place_for_the_values_is_not_used() -> None:
    assert AxisScale.of([0.0, 5.0], "log").kind == "linear"
    assert AxisScale.of([0.5, 1.0], "one_minus").kind == "linear"
    assert AxisScale.of(["a", "b"], "log").choices == ("a", "b")


def test_chance_is_never_marked_beyond_all() -> None:
    """Reports of earlier versions hold such numbers."""
    drawn = parameter_figures.importance_figure(full_study(importance_null={"agent.gamma": 1.7}))
    assert drawn["data"][1]["x"] == [1.0, None]


def test_the_winner_of_a_choice_stands_where_numbers_do() -> None:
    params = {"agent.gamma": 0.98, "agent.activation": "tanh"}
    runs = [replace(one, params=params) for one in full_study().stage("screen")]
    table = render_page(full_study(runs=tuple(runs))).partition('id="range-table"')[2].partition("</table>")[0]
    cells = [re.findall(r"<td[^>]*>", row)[1] for row in table.split("<tr")[2:]]
    assert len(cells) == 2
    assert not [cell for cell in cells if "number" in cell], "numbers alone would be to the right"


def test_long_labels_are_broken_and_escaped() -> None:
    assert style.lines_of("target_update_interval", 14) == "target_update_<br>interval"
    assert style.lines_of("half area under the curve, half final score", 24) == (
        "half area under the<br>curve, half final score"
    )
    assert style.lines_of("a<b & c", 3) == "a&lt;b<br>&amp; c"
    assert shortened("hyperbolic_tangent", 14) == "hyperbolic_ta…"


def test_chance_is_marked_at_every_importance(page: Parsed) -> None:
    bars, marks = page.figures()["importance-figure"]["data"]
    assert bars["y"] == marks["y"] == ["gamma 30%", "learning_rate 70%"]
    assert (bars["x"], marks["x"]) == ([0.3, 0.7], [0.35, 0.2])
    assert bars["marker"]["color"] == [style.FAINT, style.TRIAL]  # what chance alone could do is pale
    assert "on these trials gamma does not differ significantly from it." in "".join(page.text)
    late = page.figures()["importance-time-figure"]["data"][0]
    assert (late["name"], late["x"], late["y"]) == ("gamma", [0.25, 1.0], [0.8, 0.3])
    assert late["marker"]["symbol"] == ["circle", "circle-open"]


def test_the_lines_of_trials_end_at_their_scores() -> None:
    runs = [
        run(f"trial {n}", "screen", float(n), params={"a.rate": 10.0 ** -(n % 3), "a.kind": "xy"[n % 2]})
        for n in range(8)
    ]
    runs.append(run("trial 8", "screen", None, params={"a.rate": 1.0}, outcome=Outcome.CRASHED, curve=()))
    importances = {"a.rate": 0.9, "a.kind": 0.1}
    drawn = study_figures.parallel_figure(full_study(runs=tuple(runs), importances=importances, winner_label="trial 7"))
    assert drawn is not None
    assert drawn["layout"]["xaxis"]["ticktext"] == ["rate", "kind", "score"]
    traces = {trace.get("name"): trace for trace in drawn["data"]}
    assert traces["the winner"]["y"] == [0.5, 1.0, 1.0, None]  # 0.1 is half-way from 0.01 to 1
    assert traces["pruned or failed"]["y"] == [1.0, None, None, None]
    assert len(traces["best quarter"]["y"]) == 4  # trial 6
    assert "best tenth" not in traces, "that is trial 7, which is drawn as the winner"
    labels = [label["text"] for label in drawn["layout"]["annotations"]]
    assert labels[:3] == ["0.01", "0.1", "1"]
    assert labels[3:5] == ["x", "y"]


def test_both_commands_can_be_copied(page: Parsed) -> None:
    assert "tuner tune agent=dqn study.name=poles" in page.text
    targets = [attributes.get("data-target") for name, attributes in page.elements if name == "button"]
    assert [target for target in targets if target] == ["command", "study-command"]


def test_a_default_that_is_as_good_is_said_beside_the_command() -> None:
    summary = full_study()
    runs = tuple(replace(run, value=80.0) if run.stage == "test" else run for run in summary.runs)
    equal = replace(summary, runs=runs, default_command="tuner train agent=plain")
    for shown, advised in ((summary, False), (equal, True)):
        text = render_page(shown).partition('id="reproduce"')[2].partition("</section>")[0]
        assert ("The verdict keeps the default configuration" in text) == advised
        assert ("tuner train agent=plain" in text) == advised


def test_failures_are_explained_by_kind(page: Parsed) -> None:
    text = "".join(page.text)
    assert "1 crashed: RuntimeError" in text
    assert "1 diverged: the loss became nan. Numbers overflowed" in text


def test_cost_and_worth_of_more_are_shown(page: Parsed) -> None:
    rows = render_page(full_study()).partition('id="cost-table"')[2].partition("</table>")[0]
    assert rows.count("<tr") == 1 + 3  # screen, confirm, test
    assert "4 min 14 s in all" in "".join(page.text)
    assert "Going from 5 to 11 trials" in "".join(page.text)
    assert page.figures()["expected-figure"]["data"][0]["x"] == list(range(1, 12))


def test_files_lie_beside_the_page(tmp_path: Path) -> None:
    summary = full_study()
    path = write_page(summary, tmp_path / "new" / "report")
    assert path == tmp_path / "new" / "report" / "report.html"
    assert summary_from_json((path.parent / "report.json").read_text()) == summary
    assert len((path.parent / "trials.csv").read_text().splitlines()) == 1 + len(summary.runs)
    assert sorted(entry.name for entry in path.parent.iterdir()) == ["report.html", "report.json", "trials.csv"]


def test_without_plotly_it_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "plotly.offline", None)
    with pytest.raises(UserError, match=re.escape("pip install 'note-rl[report]'")):
        write_page(full_study(), tmp_path / "report")
    assert not (tmp_path / "report").exists()


def test_a_folder_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match=r"cannot be written to .*Not a directory"):
        write_page(full_study(), tmp_path / "file" / "report")
