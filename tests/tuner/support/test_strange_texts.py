"""Whole studies full of megabytes, terminal escapes and halves of characters: short, shown and survived."""

import re
import sqlite3
from pathlib import Path

import pytest

from tests.tuner.command_line import CommandLine
from tuner.reporting.page import PAGE_FILE

FUNCTION = r"""
import tuner

NASTY = "\x1b]0;owned\x07\x1b[2J\x9b31m\ud800"

def train(kind, width):
    tuner.report(0.5, width)
    if width > 5:
        raise ValueError("HEAD" + NASTY + "x" * 5_000_000 + "TAIL")
    return width
"""
SPACE = r"""
agent:
  width: {low: 1, high: 9}
  kind: {choices: ["\e[31mred", "\e]0;owned\a", "half \ud800", "plain"]}
"""
AGENT = "# @package _global_\ndefaults: [function]\nagent: {_target_: nasty_to_tune.train, kind: plain, width: 3}\n"
SIZES = ("study.num_trials=8", "study.num_race_seeds=0", "study.num_candidates=1", "study.num_select_seeds=1")
MORE = ("study.num_test_seeds=2", "study.retries=0", "study.max_failures=8", "study.name=nasty")
TERMINAL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")


@pytest.mark.parametrize("executor", ["inline", pytest.param("local", marks=pytest.mark.slow)])
def test_a_study_full_of_them(tuner: CommandLine, executor: str) -> None:
    (tuner.folder / "nasty_to_tune.py").write_text(FUNCTION)
    for group, content in (("agent", AGENT), ("space", SPACE)):
        (tuner.folder / "conf" / group).mkdir(parents=True)
        (tuner.folder / "conf" / group / "nasty.yaml").write_text(content)
    arguments = ("agent=nasty", "tracker=jsonl", f"executor={executor}", "sampler=random", *SIZES, *MORE)
    answer = tuner("tune", "--config-dir", "conf", *arguments)
    assert answer.status == 0, answer.errors[-2000:]
    told = answer.output + answer.errors
    assert "HEAD\\x1b]0;owned" in told
    assert not TERMINAL.search(told)
    assert len(told) < 30_000
    page = (Path("studies/nasty") / PAGE_FILE).read_text(encoding="utf-8")
    assert "HEAD\\x1b]0;owned" in page
    assert "x" * 1000 not in page
    assert not TERMINAL.search(page.split("<script")[0])
    with sqlite3.connect("studies.db") as database:
        (longest,) = database.execute("SELECT max(length(value_json)) FROM trial_user_attributes").fetchone()
    assert longest < 5_000
    if executor == "local":
        return
    again = tuner("report", "nasty")
    assert again.status == 0, again.errors
    assert not TERMINAL.search(again.output)


def test_a_run_that_crashes_with_megabytes(tuner: CommandLine) -> None:
    (tuner.folder / "nasty_to_tune.py").write_text(FUNCTION)
    mine = ("agent=function", "agent._target_=nasty_to_tune.train", "+agent.kind=plain", "+agent.width=7")
    answer = tuner("train", *mine, "tracker=jsonl", "hydra.run.dir=mine")
    assert answer.status == 1
    assert len(answer.errors) < 25_000
    assert not TERMINAL.search(answer.errors)
    assert "HEAD\\x1b]0;owned" in answer.errors
    assert answer.errors.rstrip().endswith("all of it is in mine/output.log")
    assert "x" * 5_000_000 + "TAIL" in Path("mine/output.log").read_text()
    assert Path("mine/result.json").stat().st_size < 2_000
