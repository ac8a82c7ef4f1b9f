"""One list of columns: the same runs in trials.csv, in Python, on the page and in the table of a tracker."""

import csv
import io
import re
from dataclasses import replace
from pathlib import Path

from tests.tuner.results.runs_of import run, study
from tuner.commands.study_result import StudyResult
from tuner.reporting.sections.outcome import trials_section
from tuner.results.columns import columns, trials_csv
from tuner.results.features import ShownIn
from tuner.results.records import Descent, Objective, RunRecord, StudySummary
from tuner.study.watching.study_run import trials_table
from tuner.trial.messages import Outcome

ENDED = RunRecord(
    0,
    "screen",
    "trial 0",
    1,
    {"agent.gamma": 0.9},
    Outcome.COMPLETE,
    1.5,
    scores={"auc": 2.5},
    seconds=70.0,
    host="far",
)
RUNNING = RunRecord(1, "screen", "trial 1", 1, {"agent.tau": 0.25}, None, None)
CHECKED = RunRecord(0, "confirm", "trial 0", 7, {"agent.gamma": 0.9}, Outcome.COMPLETE, 3.5, seconds=60.0)
SUMMARY = StudySummary("s", "m", "e", "dqn", "torch", (ENDED, RUNNING, CHECKED), others=(Objective("auc", "area"),))
NAMES = (
    *("stage", "number", "label", "seed", "outcome", "value", "auc", "seconds", "agent.gamma", "agent.tau"),
    *("reason", "folder", "host"),
)


def test_rows_are_those_of_the_file() -> None:
    rows = StudyResult(SUMMARY, Path(), ()).rows
    assert [tuple(row) for row in rows] == [NAMES] * 3, "each has all columns, whatever it has run with"
    assert list(rows[0].values()) == ["screen", 0, "trial 0", 1, "complete", 1.5, 2.5, 70.0, 0.9, None, "", "", "far"]
    assert list(rows[1].values()) == ["screen", 1, "trial 1", 1, "running", None, None, 0.0, None, 0.25, "", "", ""]
    written = list(csv.DictReader(io.StringIO(trials_csv(SUMMARY))))
    told = [{name: "" if value is None else str(value) for name, value in row.items()} for row in rows]
    assert written == told


def test_an_objective_of_seconds_has_a_column_of_its_own() -> None:
    timed = replace(ENDED, scores={"seconds": 8.0})
    summary = replace(SUMMARY, runs=(timed,), others=(Objective("seconds", "seconds"),))
    (row,) = StudyResult(summary, Path(), ()).rows
    assert (row["seconds"], row["seconds of training"]) == (70.0, 8.0)
    for table in ShownIn:
        names = [column.name for column in columns(summary, table)]
        assert len(names) == len(set(names))


def test_the_machine_is_named_where_there_is_another_one() -> None:
    here = StudySummary("s", "m", "e", "dqn", "torch", (RUNNING,))
    assert "host" not in [column.name for column in columns(here, ShownIn.FILE)]


def test_the_table_of_a_tracker() -> None:
    table = trials_table(SUMMARY)
    first = ("stage", "number", "configuration", "seed", "outcome", "score", "auc", "seconds")
    assert table.columns == (*first, "agent.gamma", "agent.tau", "reason", "host")
    assert table.rows[0] == ("screen", 0, "trial 0", 1, "complete", 1.5, 2.5, 70.0, 0.9, None, "", "far")
    assert table.rows[1] == ("screen", 1, "trial 1", 1, "running", None, None, 0.0, None, 0.25, "", "")


def test_the_table_of_the_page() -> None:
    page = str(trials_section(SUMMARY))
    rows = [re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row) for row in re.findall(r"<tr.*?</tr>", page)]
    cells = [[re.sub("<[^>]*>", "", cell) for cell in row] for row in rows]
    assert cells == [
        ["trial", "outcome", "score", "auc", "confirm", "agent.gamma", "agent.tau", "host", "time"],
        ["trial 0", "complete", "1.5", "2.5", "3.5", "0.9", "", "far", "1 min 10 s"],
        ["trial 1", "running", "", "", "", "", "0.25", "", "0 s"],
    ]


def test_csv_holds_no_formulas() -> None:
    """A spreadsheet runs what begins like one; an apostrophe makes it text. Numbers stay numbers."""
    texts = [
        "=1+1",
        "+1",
        "-1",
        "@SUM(A1)",
        "\t=1",
        "\r=1",
        "\n=1",
        "\uff1d1",
        '=HYPERLINK("http://x","y")',
        "plain",
        "a=b",
    ]
    runs = [
        replace(
            run("trial 0", "screen", number, -2.0, params={"=x": text, "y": -1.5, "z": -3}), reason=text, folder=text
        )
        for number, text in enumerate(texts)
    ]
    rows = list(csv.DictReader(io.StringIO(trials_csv(study(*runs)), newline="")))
    for text, row in zip(texts, rows, strict=True):
        safe = text if text in ("plain", "a=b") else f"'{text}".replace("\r", "\n")
        assert (row["'=x"], row["reason"], row["folder"]) == (safe, safe, safe)
        assert (row["y"], row["z"], row["value"]) == ("-1.5", "-3", "-2.0")


def test_csv_holds_every_run_and_every_parameter() -> None:
    first = run("trial 0", "screen", 0, 1 / 3, scores={"auc": 2.5}, seconds=1.5, folder="a,b")
    second = run(
        "trial 1", "screen", 1, None, outcome=None, params={"agent.tau": None, "agent.n": 3}, reason='say "x"\ny'
    )
    rows = list(csv.DictReader(io.StringIO(trials_csv(study(first, second)))))
    assert [row["outcome"] for row in rows] == ["complete", "running"]
    assert float(rows[0]["value"]) == 1 / 3
    assert (rows[0]["auc"], rows[0]["optimizer.learning_rate"], rows[0]["agent.n"]) == ("2.5", "0.0006", "")
    assert (rows[1]["value"], rows[1]["agent.n"], rows[1]["reason"]) == ("", "3", 'say "x"\ny')
    assert rows[0]["folder"] == "a,b"


def test_csv_tells_where_a_run_of_a_population_went_on_from() -> None:
    founder = run("trial 0", "screen", 0, 1.0, descent=Descent(member=0, generation=0))
    copy = run("trial 5", "screen", 5, 2.0, descent=Descent(member=1, generation=1, parent=0))
    rows = list(csv.DictReader(io.StringIO(trials_csv(study(founder, copy, run("trial 5", "test", 6, 3.0))))))
    assert [(row["member"], row["generation"], row["parent"]) for row in rows] == [
        ("0", "0", ""),
        ("1", "1", "0"),
        ("", "", ""),
    ]
    assert "member" not in trials_csv(study(run("trial 0", "screen", 0, 1.0)))
