"""Our studies in optuna-dashboard: names and notes, as its own server hands them out."""

import json
from pathlib import Path
from typing import Any
from wsgiref.util import setup_testing_defaults

import optuna
import optuna_dashboard
import pytest

from tests.tuner.studies import ControllerDied, FakeExecutor, journal, run_study
from tuner.results.verdict import verdict
from tuner.study import StudyStore, fill_dashboard, fill_in_missing
from tuner.study.optuna_internals import handle_of


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


def test_values_stand_in_the_storage_as_they_are_typed_and_the_winner_is_marked(tmp_path: Path) -> None:
    first = run_study(tmp_path, num_trials=2, num_candidates=1)
    with StudyStore(journal(tmp_path)) as store:
        fill_dashboard(store, first, tmp_path)
    for num_trials in range(4, 60, 4):
        summary = run_study(tmp_path, num_trials=num_trials, num_candidates=1)
        if summary.winner_label != first.winner_label:
            break
    with StudyStore(journal(tmp_path)) as store:
        fill_dashboard(store, summary, tmp_path)
        study = store.require("study")
        marked = {trial.number: optuna_dashboard.get_note(handle_of(study, trial)) for trial in study.trials}
        details = served(store)
        shown = {one["number"]: texts_of(one) for one in details["study"]["trials"]}
        tested = [texts_of(one) for one in details["study/test"]["trials"]]
    (winner,) = (number for number, note in marked.items() if note)
    assert f"trial {winner}" == summary.winner_label != first.winner_label
    assert "**The winner of the study.**" in marked[winner]
    for run in summary.stage("screen"):
        assert {path: json.loads(shown[run.number][path]) for path in run.params} == run.params
        assert all(
            f"- `{path}={value}`" in marked[winner] for path, value in run.params.items() if run.number == winner
        )
    assert study.user_attrs["winners"] == {
        summary.winner_label: {"trial": winner, "values": summary.params_of(f"trial {winner}")}
    }
    assert {one["configuration"] for one in tested} >= {"default", f"trial {winner}"}


def texts_of(trial: dict[str, Any]) -> dict[str, str]:
    """A trial's attributes as the dashboard writes them."""
    return {one["key"]: one["value"] for one in trial["user_attrs"]}


def _stored(folder: Path) -> list[optuna.trial.FrozenTrial]:
    with StudyStore(journal(folder)) as store:
        return store.require("study").trials
