"""The page as a browser sees it (-m browser)."""

import html
import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.tuner.reporting.browser import Visit, visit
from tests.tuner.reporting.summaries import EVIL, full_study
from tuner.reporting.page import make_figures, write_page
from tuner.results.records import Objective

pytestmark = pytest.mark.browser


def instrumented(page: Path, script: str, head: str = "") -> Path:
    """A copy with a script of our own, run once all is drawn; for it the policy has to go. `head` goes before all."""
    text = re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", page.read_text())
    copy = page.with_name("instrumented.html")
    ready = "document.documentElement.dataset.ready"
    waiting = f"(function wait() {{ if (!{ready}) return setTimeout(wait, 20);\n{script}\n}})();"
    copy.write_text(text.replace("</head>", f"{head}</head>").replace("</body>", f"<script>{waiting}</script></body>"))
    return copy


Draw = Callable[..., None]


@pytest.fixture
def draw(monkeypatch: pytest.MonkeyPatch) -> Draw:
    """Leaves all figures out of pages but some: to draw them takes most of a visit."""

    def only(*names: str) -> None:
        monkeypatch.setattr(
            "tuner.reporting.page.make_figures",
            lambda *given: {name: drawing for name, drawing in make_figures(*given).items() if name in names},
        )

    return only


@pytest.fixture(scope="module")
def page_and_visit(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Visit]:
    """The page of a study with texts that nobody should run, and what a browser made of it."""
    folder = tmp_path_factory.mktemp("page")
    page = write_page(replace(full_study(notes=(EVIL,)), name=f"poles {EVIL}"), folder / "report")
    return page, visit(page, folder)


def test_the_page_draws_everything_without_an_error_or_a_request(page_and_visit: tuple[Path, Visit]) -> None:
    _, seen = page_and_visit
    assert seen.console == []
    assert seen.requests == []
    assert 'data-ready="true"' in seen.dom
    kinds = ("comparison", "history", "curves", "importance", "importance-time", "parallel", "expected")
    for name in (*(f"{kind}-figure" for kind in kinds), "slice-figure-1", "slice-figure-2"):
        drawn = seen.dom.partition(f'id="{name}"')[2].partition("</figure>")[0]
        assert 'class="main-svg"' in drawn, name
        assert re.search('class="(point|lines)\\b', drawn), name
    rows = seen.dom.partition('id="trial-table"')[2].partition("</table>")[0]
    assert rows.count("<tr") == 1 + 12
    assert seen.dom.count("<script") == 3  # the data, plotly, ours: none came in with the text


def test_what_the_checks_look_for_is_found_when_it_is_there(tmp_path: Path) -> None:
    page = tmp_path / "bad.html"
    page.write_text("<img src='http://127.0.0.1:9/x.png'><script>console.error('broken')</script>")
    seen = visit(page, tmp_path)
    assert seen.requests == ["http://127.0.0.1:9/x.png"]
    assert any("broken" in line for line in seen.console)


def test_the_policy_stops_a_script_that_got_in(tmp_path: Path, draw: Draw) -> None:
    draw()
    page = write_page(full_study(), tmp_path / "report")
    page.write_text(page.read_text().replace("</main>", "<script>document.title = 'taken over'</script></main>"))
    seen = visit(page, tmp_path)
    assert "taken over</title>" not in seen.dom
    assert any("Content Security Policy" in line for line in seen.console)


def test_the_command_can_be_copied_from_a_file(tmp_path: Path, draw: Draw) -> None:
    """The old way: Chromium asks another process for the clipboard, and may end before that answers."""
    draw()
    page = write_page(full_study(retrain_command="tuner train seed=7"), tmp_path / "report")
    script = """
        navigator.clipboard.writeText = () => Promise.reject(new Error("not from a file"));
        document.execCommand = (what) => { document.title = what + ": " + getSelection(); };
        document.querySelector('button.copy').click();
        setTimeout = () => 0;
    """
    head = (
        '<script>if (!navigator.clipboard) navigator.__defineGetter__("clipboard", () => window.board ??= {});</script>'
    )
    seen = visit(instrumented(page, script, head), tmp_path)
    assert ">Copied</button>" in seen.dom
    assert "<title>copy: tuner train seed=7</title>" in seen.dom
    assert seen.console == []


CLICKS = """
const named = () => document.getElementById("trial-table").innerText.match(/trial [0-9]+/g);
const orders = [0, 1].map(() => { document.querySelectorAll("#trial-table th")[2].click(); return named(); });
const seen = [orders];
const click = (element) => element.dispatchEvent(new MouseEvent("click", { bubbles: true }));
document.querySelectorAll("details > summary").forEach((one) => one.click());
seen.push([...document.querySelectorAll("details")].every((one) => one.open));
const cells = () => [...document.querySelectorAll("#range-table tbody tr")].map((row) => row.cells[0].textContent);
seen.push(cells());
document.querySelector("#range-table th").click();
seen.push(cells());
const plot = document.getElementById("parallel-figure");
const shown = () => plot.data.filter((trace) => trace.visible !== "legendonly" && trace.showlegend !== false).length;
const before = shown();
const entry = plot.querySelector(".legendtoggle");
["mousedown", "mouseup", "click"].forEach((kind) => entry.dispatchEvent(new MouseEvent(kind, { bubbles: true })));
document.querySelectorAll("button.copy").forEach((one) => one.click());
setTimeout(() => {
  seen.push([before, shown()]);
  document.title = "seen " + JSON.stringify(seen);
}, 2000);
"""


def test_everything_that_can_be_clicked_does_what_it_says(tmp_path: Path, draw: Draw) -> None:
    draw("parallel-figure")
    page = write_page(full_study(), tmp_path / "report")
    seen = visit(instrumented(page, CLICKS), tmp_path)
    found = re.search("<title>seen (.*)</title>", seen.dom)
    assert found, seen.console
    (ascending, descending), opened, before, after, (shown, left) = json.loads(html.unescape(found[1]))
    # Scores 0, 9 (diverged), 10, 12 (pruned), 20, ...; the crashed trial 10 has none and stays at the end.
    assert ascending == [f"trial {n}" for n in (0, 11, 1, 9, 2, 3, 4, 5, 6, 7, 8, 10)]
    assert descending == [f"trial {n}" for n in (8, 7, 6, 5, 4, 3, 2, 9, 1, 11, 0, 10)]
    assert opened
    assert before == ["optimizer.learning_rate", "agent.gamma"]
    assert after == ["agent.gamma", "optimizer.learning_rate"]
    assert (shown, left) == (4, 3), "a click in the legend hides a group of trials"
    assert seen.console == []


def test_a_page_of_several_objectives_draws_its_front(tmp_path: Path) -> None:
    runs = [replace(one, scores={"seconds": 20.0 - one.number}) for one in full_study().runs]
    summary = full_study(
        runs=tuple(runs),
        winner_label=None,
        others=(Objective("seconds", "seconds of a run"),),
        facts={"front": ("trial 8", "trial 7")},
    )
    seen = visit(write_page(summary, tmp_path / "report"), tmp_path)
    assert seen.console == []
    drawn = seen.dom.partition('id="front-figure"')[2].partition("<figcaption>")[0]
    assert len(re.findall(r'class="point\b', drawn)) >= 9


def test_plots_follow_the_colour_scheme(page_and_visit: tuple[Path, Visit], tmp_path: Path) -> None:
    page, seen = page_and_visit
    light = seen.dom
    dark = visit(page, tmp_path, "--force-dark-mode").dom
    winner_light, winner_dark = "rgb(0, 114, 178)", "rgb(93, 183, 238)"
    assert winner_light in light
    assert winner_dark not in light
    assert winner_dark in dark
    assert winner_light not in dark


WIDTHS = """
const seen = [...document.querySelectorAll(".scroll")].map((one) => [one.scrollWidth, one.clientWidth]);
document.title = "seen " + JSON.stringify(seen);
"""


def test_the_tables_of_five_parameters_fit_a_window_of_1300_pixels(tmp_path: Path, draw: Draw) -> None:
    draw()
    params = {"agent.activation": "sigmoid", "agent.batch_size": 1024, "agent.entropy_coef": 0.00364}
    params |= {"agent.gamma": 0.99987, "agent.learning_rate": 0.000412}
    runs = [replace(one, params=params if one.params else {}) for one in full_study().runs]
    race = [replace(one, stage="race", seed=one.seed + 100) for one in runs if one.stage == "confirm"]
    page = write_page(full_study(runs=(*runs, *race)), tmp_path / "report")
    seen = visit(instrumented(page, WIDTHS), tmp_path, "--window-size=1300,900")
    found = re.search("<title>seen (.*)</title>", seen.dom)
    assert found, seen.console
    widths = json.loads(html.unescape(found[1]))
    assert len(widths) >= 3
    assert all(content <= room for content, room in widths), widths


NARROW = "<style>body { width: 390px }</style>"
LABELS = """
  const shown = (one) => one.textContent.trim() && one.getBoundingClientRect().width > 0;
  const cut = [];
  for (const place of document.querySelectorAll(".plot > div")) {
    const room = place.getBoundingClientRect();
    for (const one of [...place.querySelectorAll(".main-svg text")].filter(shown)) {
      const box = one.getBoundingClientRect();
      if (box.left < room.left - 1 || box.right > room.right + 1) cut.push([place.id, one.textContent]);
    }
  }
  const labels = [...document.querySelectorAll("#parallel-figure .xtick text, #parallel-figure .annotation-text")];
  const boxes = labels.filter(shown).map((one) => one.getBoundingClientRect());
  const meet = (a, b) => a.left < b.right && b.left < a.right && a.top + 2 < b.bottom && b.top + 2 < a.bottom;
  const crossed = boxes.flatMap((one, index) => boxes.slice(index + 1).filter((other) => meet(one, other)));
  const columns = getComputedStyle(document.querySelector(".plots")).gridTemplateColumns.split(" ").length;
  const widest = Math.max(...[...document.querySelectorAll("section, .plot")].map((one) => one.offsetWidth));
  const lost = document.querySelector("#parallel-figure").offsetWidth - document.querySelector(".plot").offsetWidth;
  const seen = { cut, crossed: crossed.length, labels: boxes.length, columns, widest, scrolled: lost > 0 };
  document.title = "seen " + JSON.stringify(seen);
"""


@pytest.mark.slow
def test_on_a_telephone_no_label_is_cut_and_none_lies_on_another(tmp_path: Path) -> None:
    names = ("learning_rate", "target_update_interval", "gradient_steps", "gae_lambda", "num_epochs")
    numbers = {f"buffer.{name}": 0.001234 * (index + 1) for index, name in enumerate(names)}
    runs = [
        replace(one, params={**{key: value * (1 + one.number) for key, value in numbers.items()},
                             "network.activation": ("leaky_rectified", "hyperbolic_tangent")[one.number % 2]})
        if one.params else one
        for one in full_study().runs
    ]  # fmt: skip
    paths = [*numbers, "network.activation"]
    shares = dict.fromkeys(paths, 1 / 6)
    metric = "half area under the curve of the mean return over episodes, half final score"
    summary = replace(full_study(runs=tuple(runs), importances=shares, importance_null={}), metric_name=metric)
    page = instrumented(write_page(summary, tmp_path / "report"), LABELS, NARROW)
    seen = visit(page, tmp_path, "--window-size=1300,900")
    found = re.search("<title>seen (.*)</title>", seen.dom)
    assert found, seen.console
    layout = json.loads(html.unescape(found[1]))
    assert layout["cut"] == []
    assert layout["crossed"] == 0
    assert layout["labels"] >= 7 + 5 * 2 + 2 + 2
    assert layout["columns"] == 1
    assert layout["widest"] <= 390
    assert layout["scrolled"], "there is no room for seven uprights: they keep their distance, and their place scrolls"


OBSERVER = """<script>
const observed = [];
window.ResizeObserver = class {  /* frames, on which the real one waits, are rare in virtual time */
  constructor(callback) { this.callback = callback; }
  observe(target) { observed.push([this, target]); }
};
</script>"""
RESIZE = """
document.body.style.width = "390px";
for (const [observer, target] of observed) observer.callback([{ target }]);
setTimeout(() => {
  const widths = observed.map(([, target]) => [target.querySelector(".main-svg").clientWidth, target.clientWidth]);
  document.title = "seen " + JSON.stringify(widths);
}, 2000);
"""


@pytest.mark.slow
def test_figures_follow_the_width_of_their_places(tmp_path: Path) -> None:
    page = instrumented(write_page(full_study(), tmp_path / "report"), RESIZE, OBSERVER)
    seen = visit(page, tmp_path, "--window-size=1300,900")
    found = re.search("<title>seen (.*)</title>", seen.dom)
    assert found, seen.console
    widths = json.loads(html.unescape(found[1]))
    assert len(widths) == 9
    assert all(drawn == room <= 390 for drawn, room in widths), widths
