"""`tuner plot`: which runs are drawn, what is drawn of them, and where it is written."""

import json
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import yaml
from PIL import Image

from tests.tuner.command_line import CommandLine, tuner
from tests.tuner.studies import run_study
from tuner.runs.run_curves import CurveKind, read_curve
from tuner.trackers.history import HISTORY_FILE, HistoryRow, _write_history

__all__ = ["tuner"]

CONFIG = {"agent": {"_target_": "note_rl.agents.pytorch.DQN", "gamma": 0.99}, "env": {"id": "CartPole-v1"}}


def make_run(folder: Path, seed: int, reports: Sequence[float], **changes: Any) -> Path:
    """The files of a run of 100 steps with evaluations on an even grid."""
    folder.mkdir(parents=True)
    config = {**CONFIG, "training": {"total_steps": 100}, "seed": seed, **changes}
    (folder / "config.yaml").write_text(yaml.safe_dump(config))
    lines = [{"step": (number + 1) / 4, "value": value} for number, value in enumerate(reports)]
    (folder / "reports.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    return folder


def make_history(folder: Path, rewards: Sequence[float]) -> None:
    """An episode each 10 steps and each 30 seconds."""
    rows = [HistoryRow(0.0, 0.0, reward, 10 * n, 30.0 * n) for n, reward in enumerate(rewards, start=1)]
    _write_history(folder / HISTORY_FILE, rows)


def figure_in(page: Path) -> list[dict[str, Any]]:
    found = re.search(r'<script type="application/json" id="figures">(.*?)</script>', page.read_text(), re.DOTALL)
    assert found
    traces: list[dict[str, Any]] = json.loads(found[1])["figures"]["curves-figure"]["data"]
    return traces


def test_runs_of_one_configuration_share_a_line_with_a_band(tuner: CommandLine) -> None:
    make_run(tuner.folder / "runs" / "a", 1, [1, 2, 3, 4])
    make_run(tuner.folder / "runs" / "b", 2, [3, 4, 5, 10])
    make_run(tuner.folder / "runs" / "c", 1, [0, 0, 8], agent={**CONFIG["agent"], "gamma": 0.9})
    answer = tuner("plot", "runs/a", "runs/b", "runs/c", "file=deep/curves.html", "spread=range")
    assert (answer.status, answer.errors) == (0, "")
    assert answer.output.splitlines() == [
        "agent.gamma=0.99 (2 runs): 7 at 100 environment steps (4 to 10)",
        "agent.gamma=0.9: 8 at 75 environment steps",
        "mean return of an evaluation of 3 runs: deep/curves.html",
    ]
    page = tuner.folder / "deep" / "curves.html"
    assert "<h1>Mean return of an evaluation over environment steps</h1>" in page.read_text()
    assert "the band holds all of them" in page.read_text()
    around, line, single = figure_in(page)
    assert (line["name"], line["x"], line["y"]) == ("agent.gamma=0.99 (2 runs)", [25, 50, 75, 100], [2, 3, 4, 7])
    assert around["x"] == [25, 50, 75, 100, 100, 75, 50, 25]
    assert around["y"] == [3, 4, 5, 10, 4, 3, 2, 1]
    assert (single["name"], single["x"], single["y"]) == ("agent.gamma=0.9", [25, 50, 75], [0, 0, 8])


def test_a_folder_of_runs_stands_for_all_of_them(tuner: CommandLine) -> None:
    for seed in (0, 1, 10):
        make_run(tuner.folder / "multirun" / str(seed), seed, [seed])
    assert tuner("plot", "multirun", "file=a.html").output.startswith("DQN (3 runs): 1 at 25 environment steps")
    assert tuner("plot", "multirun", "multirun/0", "file=a.html", "group=none").output.splitlines()[:-1] == [
        "DQN, seed 0: 0 at 25 environment steps",
        "DQN, seed 1: 1 at 25 environment steps",
        "DQN, seed 10: 10 at 25 environment steps",
    ]


def test_where_a_line_is_of_fewer_runs_is_said(tuner: CommandLine) -> None:
    make_run(tuner.folder / "runs" / "a", 1, [1, 2, 3, 4])
    make_run(tuner.folder / "runs" / "b", 2, [1, 2])
    answer = tuner("plot", "runs", "file=a.html", "over=steps")
    assert "DQN (2 runs): 4 at 100 environment steps; of fewer than 2 runs beyond 50\n" in answer.output


@pytest.mark.parametrize(
    ("kind", "x", "y"),
    [
        (CurveKind("train", "steps", window=2), [10, 20, 30], [2, 3, 6]),
        (CurveKind("train", "episodes", window=1), [1, 2, 3], [2, 4, 8]),
        (CurveKind("train", "time", "seconds", window=100), [30, 60, 90], [2, 3, 14 / 3]),
        (CurveKind("eval", "time", "minutes"), [1.25, 1.5], [5, 7]),  # after 25 and 30 steps
        (CurveKind("eval", "episodes"), [2, 3], [5, 7]),
        (CurveKind("train/loss", "time", "minutes"), [0.5, 1.0], [0.5, 0.25]),
    ],
)
def test_what_is_drawn_over_what(tmp_path: Path, kind: CurveKind, x: list[float], y: list[float]) -> None:
    folder = make_run(tmp_path / "a", 1, [])
    make_history(folder, [2, 4, 8])
    (folder / "reports.jsonl").write_text('{"step": 0.25, "value": 5}\n{"step": 0.3, "value": 7}\n')
    (folder / "metrics.jsonl").write_text(
        '{"step": 10, "train/loss": 0.5}\n{"step": 15, "train/loss": null}\n{"step": 20, "train/loss": 0.25}\n'
    )
    curve = read_curve(folder, {"training": {"total_steps": 100}}, kind)
    assert curve.x.tolist() == pytest.approx(x)
    assert curve.y.tolist() == pytest.approx(y)


def test_evaluations_stand_where_they_were_made(tmp_path: Path) -> None:
    """Reports stand on an even grid, one evaluation may stand for several, and an early end fills up the rest."""
    folder = make_run(tmp_path / "a", 1, [5, 5, 7, 7])
    (folder / "metrics.jsonl").write_text(
        '{"step": 32, "eval/mean_return": 5}\n{"step": 40, "train/loss": 1}\n{"step": 64, "eval/mean_return": 7}\n'
    )
    curve = read_curve(folder, {"training": {"total_steps": 100}}, CurveKind("eval"))
    assert (curve.x.tolist(), curve.y.tolist()) == ([32, 64], [5, 7])


def test_a_single_measurement_is_a_mark(tuner: CommandLine) -> None:
    make_run(tuner.folder / "runs" / "a", 1, [3])
    assert tuner("plot", "runs/a", "file=a.html").status == 0
    assert [trace["mode"] for trace in figure_in(tuner.folder / "a.html")] == ["markers"]
    assert tuner("plot", "runs/a", "file=a.svg").status == 0
    with_mark = (tuner.folder / "a.svg").read_text()
    lines = ElementTree.fromstring(with_mark).iter("{http://www.w3.org/2000/svg}g")
    drawn = [group for group in lines if group.get("id", "").startswith("line2d")]
    assert any(
        "#1f77b4" in ElementTree.tostring(use, "unicode") for group in drawn for use in group.iter() if "use" in use.tag
    )


def test_a_study_is_its_winner_against_the_default(tuner: CommandLine) -> None:
    summary = run_study(tuner.folder)
    winner = summary.winner_label
    answer = tuner("plot", "study", "file=a.html")
    assert (answer.status, answer.errors) == (0, "")
    lines = {trace["name"]: trace for trace in figure_in(tuner.folder / "a.html") if "name" in trace}
    assert set(lines) == {f"{winner}, the winner (2 runs)", "default (2 runs)"}
    for label, name in ((winner, f"{winner}, the winner (2 runs)"), ("default", "default (2 runs)")):
        ends = [run.curve[-1][1] for run in summary.stage("test", label)]
        assert lines[name]["x"][-1] == 900
        assert lines[name]["y"][-1] == pytest.approx(sum(ends) / 2, rel=1e-6)
    make_run(tuner.folder / "runs" / "mine", 1, [1])
    assert tuner("plot", "studies/study", "runs/mine", "file=a.html").output.startswith(f"study, {winner}, the winner")
    assert "trials of a study do not: use over=steps" in tuner.refused("plot", "study", "over=time", "file=b.html")
    assert "trial" not in tuner("plot", "studies/study/test/0", "file=a.html").output


def test_pictures_show_the_lines_and_their_names(tuner: CommandLine) -> None:
    make_run(tuner.folder / "runs" / "a", 1, [1, 2, 3, 4])
    make_run(tuner.folder / "runs" / "b", 1, [4, 4, 4, 4], agent={"_target_": "my.own$_{agent}$"})
    assert tuner("plot", "runs", "labels=['50$ & more', '$_x$']", "file=a.svg").status == 0
    root = ElementTree.parse(tuner.folder / "a.svg").getroot()
    words = ["".join(node.itertext()) for node in root.iter("{http://www.w3.org/2000/svg}text")]
    assert {"50$ & more", "$_x$", "environment steps", "mean return of an evaluation"} <= set(words)
    assert tuner("plot", "runs", "file=a.PNG").status == 0
    with Image.open(tuner.folder / "a.PNG") as picture:
        assert picture.format == "PNG"
        colors = {color for _, color in picture.convert("RGB").getcolors(1 << 20) or ()}
    assert {(31, 119, 180), (255, 127, 14)} <= colors, "one line in blue, the other in orange"
    assert not [path for path in tuner.folder.iterdir() if path.name.startswith(".")]


def test_labels_fit_the_lines(tuner: CommandLine) -> None:
    make_run(tuner.folder / "runs" / "a", 1, [1])
    make_run(tuner.folder / "runs" / "b", 1, [2], agent={"_target_": "my.PPO"})
    tuner("plot", "runs", "labels=[Mine,Theirs]", "file=a.html")
    assert [trace["name"] for trace in figure_in(tuner.folder / "a.html")] == ["Mine", "Theirs"]
    for wrong in ("labels=[A]", "labels=[A,A]", "labels=[A,B,C]"):
        assert "must name 2 lines, each otherwise: DQN; PPO" in tuner.refused("plot", "runs", wrong, "file=b.html")


def test_what_cannot_be_drawn_is_refused(tuner: CommandLine) -> None:
    make_run(tuner.folder / "runs" / "mine", 1, [])
    refused = tuner.refused
    assert "nope and nix are no folders of runs, of several runs, or of studies" in refused("plot", "nope", "nix")
    (tuner.folder / "studies" / "alpha" / "screen").mkdir(parents=True)
    for word, meant in (("runs/min", "runs/mine"), ("min", "runs/mine"), ("alhpa", "alpha")):
        expected = f"{word} is not the folder of a run, nor a study; did you mean {meant}?"
        assert expected in refused("plot", "runs/mine", word)
    assert "tuner plot RUN ..., such as runs/mine" in refused("plot")
    assert "let its name end in one of them" in refused("plot", "runs/mine", "file=a.pdf")
    assert "over=miles is not possible: it must be one of steps, epi" in refused("plot", "runs", "over=miles")
    assert "has no evaluation yet" in refused("plot", "runs/mine")
    assert "no training episode that has ended yet" in refused("plot", "runs/mine", "metric=train")
    (tuner.folder / "runs" / "mine" / "metrics.jsonl").write_text('{"step": 1, "train/loss": 1.0}\n')
    assert "logged no train/los; did you mean train/loss?" in refused("plot", "runs/mine", "metric=train/los")


def test_a_package_that_is_missing_is_named(tuner: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    make_run(tuner.folder / "runs" / "mine", 1, [1])
    for package, extra, file in (("matplotlib", "plot", "a.png"), ("plotly", "report", "a.html")):
        monkeypatch.setitem(sys.modules, package, None)
        assert f"file={file} needs {package}" in (said := tuner.refused("plot", "runs/mine", f"file={file}"))
        assert f"pip install 'note-rl[{extra}]'" in said
