"""One list of columns: the same runs in trials.csv, in Python, on the page and in the table of a tracker."""

import csv
import io
import re
from pathlib import Path

from tuner.commands.study_result import StudyResult
from tuner.reporting.sections.outcome import trials_section
from tuner.results.columns import columns, trials_csv
from tuner.results.features import ShownIn
from tuner.results.records import Objective, RunRecord, StudySummary
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


def test_the_machine_is_named_where_there_is_another_one() -> None:
    here = StudySummary("s", "m", "e", "dqn", "torch", (RUNNING,))
    assert "host" not in [column.name for column in columns(here, ShownIn.FILE)]


def test_the_table_of_a_tracker() -> None:
    table = trials_table(SUMMARY)
    first = ("stage", "number", "configuration", "seed", "outcome", "score", "auc", "seconds")
    assert table.columns == (*first, "agent.gamma", "agent.tau", "reason")
    assert table.rows[0] == ("screen", 0, "trial 0", 1, "complete", 1.5, 2.5, 70.0, 0.9, None, "")
    assert table.rows[1] == ("screen", 1, "trial 1", 1, "running", None, None, 0.0, None, 0.25, "")


def test_the_table_of_the_page() -> None:
    page = str(trials_section(SUMMARY))
    rows = [re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row) for row in re.findall(r"<tr.*?</tr>", page)]
    cells = [[re.sub("<[^>]*>", "", cell) for cell in row] for row in rows]
    assert cells == [
        ["trial", "outcome", "score", "auc", "confirm", "gamma", "tau", "time"],
        ["trial 0", "complete", "1.5", "2.5", "3.5", "0.9", "", "1 min 10 s"],
        ["trial 1", "running", "", "", "", "", "0.25", "0 s"],
    ]
