"""`tuner report`: which study it takes, what it writes, what it refuses."""

from dataclasses import replace
from pathlib import Path

import pytest

from tests.tuner.command_line import CommandLine
from tests.tuner.studies import ControllerDied, FakeExecutor, run_study
from tuner.results.summary_json import summary_from_json

URL = "journal:///studies.journal"


STORAGE = "storage=journal"


def words(text: str) -> str:
    return " ".join(text.split())


def test_the_page_of_a_study_by_name(tuner: CommandLine) -> None:
    summary = run_study(tuner.folder, url=URL)
    run_study(tuner.folder, url=URL, name="other")
    answer = tuner("report", "study", STORAGE)
    assert answer.status == 0, answer
    assert "there is also" not in answer.output
    assert f"the report is {Path('studies/study/report.html')}" in words(answer.output)
    kept = summary_from_json(Path("studies/study/report.json").read_text())
    assert run_study(tuner.folder, url=URL).runs == summary.runs
    # the page names folders as they are seen from the working directory, not from the root of this machine
    relative = [replace(run, folder=str(Path(run.folder).relative_to(tuner.folder))) for run in summary.runs]
    assert list(kept.runs) == relative
    assert kept.winner_label == summary.winner_label
    assert (summary.winner_label or "") in Path("studies/study/report.html").read_text()


def test_without_a_name_the_latest_study_is_taken(tuner: CommandLine) -> None:
    run_study(tuner.folder, url=URL, name="only")
    answer = tuner("report", STORAGE)
    assert answer.status == 0
    assert "studies/only/report.html" in words(answer.output)
    assert "latest" not in answer.output
    run_study(tuner.folder, url=URL, name="second")
    answer = tuner("report", STORAGE)
    assert "second is the latest study; there is also only" in words(answer.output)
    assert "studies/second/report.html" in words(answer.output)


def test_a_study_under_way_has_a_page_too(tuner: CommandLine) -> None:
    with pytest.raises(ControllerDied):
        run_study(tuner.folder, FakeExecutor(die_after=70), url=URL)
    answer = tuner("report", "study", STORAGE)
    assert answer.status == 0, answer
    kept = summary_from_json(Path("studies/study/report.json").read_text())
    assert [run.outcome is None for run in kept.runs] == [False, False, False, True]
    assert kept.winner_label is None


def test_a_wrong_name_gets_the_nearest(tuner: CommandLine) -> None:
    run_study(tuner.folder, url=URL, name="dqn-CartPole-v1")
    answer = tuner.refused("report", "dqn-CartPol-v1", STORAGE)
    assert f"there is no study dqn-CartPol-v1 in {URL}; did you mean dqn-CartPole-v1?" in answer


def test_where_there_is_nothing_to_report(tuner: CommandLine) -> None:
    assert "there is no studies.db here: run `tuner tune` first" in tuner.refused("report")
    assert "keeps nothing to report of" in tuner.refused("report", "storage=memory")
    (tuner.folder / "studies.journal").touch()
    assert "there is no study in journal:///studies.journal yet" in tuner.refused("report", STORAGE)
    (tuner.folder / "studies.db").write_bytes(b"nonsense" * 100)
    assert "studies.db is not a sound SQLite database" in tuner.refused("report")
