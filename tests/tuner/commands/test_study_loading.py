"""Studies are found by name, by folder and as the latest."""

from dataclasses import replace
from pathlib import Path

import pytest

import tuner
from tests.tuner.studies import journal, run_study
from tuner.commands.study_loading import DEFAULT_STORAGE
from tuner.errors import UserError
from tuner.results.verdict import verdict


def test_a_study_is_found_by_name_by_folder_and_as_the_latest(here: Path) -> None:
    summary = run_study(here)
    home = here / "studies" / "study"
    for told in (tuner.load("study", storage=journal(here)), tuner.load(home), tuner.load("studies/study")):
        assert [replace(run, folder="") for run in told.summary.runs] == [
            replace(run, folder="") for run in summary.runs
        ]
        assert told.folder.resolve() == home
        assert told.winner.label == summary.winner_label
        assert told.winner.values == summary.params_of(told.winner.label)
        assert told.winner.config["optimizer"]["learning_rate"] == told.winner.values["optimizer.learning_rate"]
        assert told.verdict == verdict(summary)
    found = tuner.load(storage=journal(here))
    assert found.summary.name == "study"
    assert (
        repr(found)
        == f"<StudyResult study in {found.folder}: {len(summary.runs)} runs, winner: {summary.winner_label}>"
    )


def test_what_is_not_there_is_said(here: Path) -> None:
    with pytest.raises(UserError, match=r"there is no studies\.db here"):
        tuner.load("study")
    assert not (here / "studies.db").exists()
    run_study(here)
    with pytest.raises(UserError, match=r"there is no study studdy in .*did you mean study"):
        tuner.load("studdy", storage=journal(here))
    with pytest.raises(UserError, match="there is no folder studies/nowhere"):
        tuner.load("studies/nowhere")
    result = tuner.load("study", storage=journal(here))
    with pytest.raises(UserError, match="has a checkpoint"):
        result.agent()
    labels = sorted({run.label for run in result.summary.runs}, key=lambda one: (one != "default", len(one), one))
    listed = f"{', '.join(labels[:5])} and {len(labels) - 5} more"
    with pytest.raises(UserError, match=rf"has no run of trial 99; it has {listed} \(see trials or rows\)$"):
        result.agent("trial 99")
    with pytest.raises(UserError, match=r"has no run of trial 0 with seed 1; it has seed \d+$"):
        result.agent("trial 0", seed=1)


def test_the_default_storage_is_that_of_the_command_line() -> None:
    from tuner.config.composition import compose, config_loader

    assert compose(config_loader(None), "tune", []).storage.url == DEFAULT_STORAGE
