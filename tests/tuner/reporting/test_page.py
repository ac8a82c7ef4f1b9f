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
from tuner.reporting.figures import style
from tuner.reporting.page import render_page, write_page
from tuner.results.records import StudySummary
from tuner.results.summary_json import summary_from_json
from tuner.results.verdict import verdict
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


def test_chance_is_marked_at_every_importance(page: Parsed) -> None:
    bars, marks = page.figures()["importance-figure"]["data"]
    assert bars["y"] == marks["y"] == ["agent.gamma 30%", "optimizer.learning_rate 70%"]
    assert (bars["x"], marks["x"]) == ([0.3, 0.7], [0.35, 0.2])
    assert bars["marker"]["color"] == [style.FAINT, style.TRIAL]  # what chance alone could do is pale
    assert "on these trials agent.gamma does not differ significantly from it." in "".join(page.text)
    late = page.figures()["importance-time-figure"]["data"][0]
    assert (late["name"], late["x"], late["y"]) == ("agent.gamma", [0.25, 1.0], [0.8, 0.3])
    assert late["marker"]["symbol"] == ["circle", "circle-open"]


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
    assert "With 11 instead of 5 trials" in "".join(page.text)
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


def test_tables_of_the_page_mark_a_trial_with_the_default_configuration() -> None:
    text = Parsed(render_page(full_study(starts={"trial 8": "default", "trial 10": "default"}))).text
    assert text.count("trial 8 (default) ★") == 1, "among the trials"
    assert text.count("trial 8 (default)") == 5, "among the test runs"
    assert text.count("trial 10 (default)") == 2, "among the trials and the failures"
    assert "trial 8" not in text
