"""What optuna-dashboard has to show of our studies: names and notes, as its own server hands them out."""

import json
from pathlib import Path
from typing import Any
from wsgiref.util import setup_testing_defaults

import optuna_dashboard
import pytest

from tests.tuner.studies import ControllerDied, FakeExecutor, journal, run_study
from tuner.results import verdict
from tuner.study import StudyStore, fill_dashboard, fill_in_missing


def served(store: StudyStore) -> dict[str, dict[str, Any]]:
    """Name -> details of each study, as the dashboard's page gets them."""
    app = optuna_dashboard.wsgi(store._storage)

    def get(path: str) -> Any:
        answer: list[str] = []
        environ: dict[str, Any] = {"PATH_INFO": path}
        setup_testing_defaults(environ)
        body = b"".join(app(environ, lambda status, headers, error=None: answer.append(status)))
        assert answer[0].startswith("200"), (path, answer, body)
        return json.loads(body)

    studies = {one["study_name"]: one["study_id"] for one in get("/api/studies")["study_summaries"]}
    return {name: get(f"/api/studies/{number}") for name, number in studies.items()}


def test_the_dashboard_shows_the_verdict_and_what_values_are(tmp_path: Path) -> None:
    summary = run_study(tmp_path, facts={"command": "tuner tune agent=synthetic"})
    with StudyStore(journal(tmp_path)) as store:
        fill_dashboard(store, summary, tmp_path / "studies" / "study")
        shown = served(store)
    assert set(shown) == {"study", "study/confirm", "study/test"}
    for details in shown.values():
        assert details["objective_names"] == ["half area under the curve, half final score"]
    note = shown["study"]["note"]["body"]
    assert verdict(summary).sentence in note
    assert "```sh\ntuner tune agent=synthetic\n```" in note
    assert str(tmp_path / "studies" / "study") in note
    assert "Stage **test** of study `study`" in shown["study/test"]["note"]["body"]


def test_a_study_under_way_gets_a_note_and_foreign_notes_stay(tmp_path: Path) -> None:
    with pytest.raises(ControllerDied):
        run_study(tmp_path, FakeExecutor(die_after=70))
    with StudyStore(journal(tmp_path)) as store:
        store.open("foreign", "screen")
        fill_in_missing(store, tmp_path / "studies")
        study = store.require("study")
        first = optuna_dashboard.get_note(study)
        assert "Best so far: trial" in first
        assert optuna_dashboard.get_note(store.find("foreign")) == ""
    summary = run_study(tmp_path)
    with StudyStore(journal(tmp_path)) as store:
        study = store.require("study")
        fill_dashboard(store, summary, tmp_path)
        assert verdict(summary).sentence in optuna_dashboard.get_note(study), "ours is brought up to date"
        optuna_dashboard.save_note(study, "keep me")
        fill_dashboard(store, summary, tmp_path)
        assert optuna_dashboard.get_note(study) == "keep me"
