"""A study in optuna-dashboard besides its numbers: names of its objectives, and a note that describes it.

A note that somebody else has written is left alone.
"""

import functools
import importlib
import importlib.util
from pathlib import Path
from typing import Any, Final

import optuna

from tuner.results.features import chosen
from tuner.results.records import LATER_STAGES, SCREEN, RunRecord, StudySummary
from tuner.results.verdict import verdict
from tuner.study.optuna_internals import handle_of
from tuner.study.storage import store as attributes
from tuner.study.storage.store import StudyStore, quiet_optuna, study_name
from tuner.study.summary import home_of, summarise
from tuner.trial.messages import JsonDict

WINNERS: Final = "winners"
"""Attribute of a study: label of its winner, or of all that it chose -> its trial and its values as typed."""

_SIGNATURE: Final = "*Written by `tuner`; once you change this note it is left alone.*"


def fill_dashboard(store: StudyStore, summary: StudySummary, home: Path) -> None:
    """Names the objectives of all stages of a study and writes their notes.

    Args:
        store: Where it is kept.
        summary: Of the study.
        home: Its folder.
    """
    names = [summary.metric_name, *(other.label for other in summary.others)]
    for stage in (SCREEN, *LATER_STAGES):
        study = store.find(summary.name, stage)
        if study is None:
            continue
        if study.metric_names != names:
            with quiet_optuna():
                study.set_metric_names(names)
        if stage == SCREEN:
            _write_note(study, _study_note(summary, home))
            _mark_winners(study, summary)
        else:
            _write_note(study, _stage_note(summary, stage))


def fill_in_missing(store: StudyStore, folder: Path) -> None:
    """The same for all studies of ours that have no note yet, such as one under way.

    Args:
        store: Where they are kept.
        folder: Where the folders of studies are.
    """
    for name in store.names():
        study = store.find(name)
        if study is not None and attributes.DEFINITION in study.user_attrs and not _note_of(study):
            home = home_of(store, name, folder / name)
            fill_dashboard(store, summarise(store, name, home), home)


def _study_note(summary: StudySummary, home: Path) -> str:
    found = verdict(summary)
    parts = [f"## {summary.name}", found.sentence]
    parts += ["\n".join(f"- {detail}" for detail in (*found.details, *summary.notes))]
    if summary.retrain_command:
        parts += ["Train the winner again:", f"```sh\n{summary.retrain_command}\n```"]
    if summary.study_command:
        parts += ["Go on with the study:", f"```sh\n{summary.study_command}\n```"]
    parts += [f"Everything is in `{home}`; `tuner report {summary.name}` writes its page."]
    if not summary.is_sweep:
        listed = ", ".join(f"`{study_name(summary.name, stage)}`" for stage in LATER_STAGES)
        parts += [f"These are the screening trials, on one seed. Later stages are {listed}."]
    return "\n\n".join([*parts, _SIGNATURE])


def _stage_note(summary: StudySummary, stage: str) -> str:
    return (
        f"Stage **{stage}** of study `{summary.name}`: some of its configurations on further seeds. `candidate` is the "
        f"number of the screening trial (-1: the default configuration), `seed` the seed.\n\n{_SIGNATURE}"
    )


def _mark_winners(study: optuna.Study, summary: StudySummary) -> None:
    """Says on the trial of the winner, or of all that was chosen, that it is; takes that back where it no longer is.

    Optuna lets nobody change the attributes of a trial that has ended: the study has an attribute that names them with
    their values, and the trials have notes.
    """
    labels = chosen(summary).labels
    runs = {run.label: run for run in summary.stage(SCREEN) if run.label in labels}
    before: JsonDict = study.user_attrs.get(WINNERS, {})
    now = {label: {"trial": run.number, "values": dict(run.params)} for label, run in runs.items()}
    if now != before:
        study.set_user_attr(WINNERS, now)
    trials = study.get_trials(deepcopy=False)
    for label, about in {**before, **now}.items():
        text = _winner_note(summary, runs[label]) if label in runs else ""
        _write_note(handle_of(study, trials[about["trial"]]), text)


def _winner_note(summary: StudySummary, run: RunRecord) -> str:
    values = "\n".join(f"- `{path}={value}`" for path, value in run.params.items())
    return f"**{chosen(summary).member}** Its values as they are typed:\n\n{values}\n\n{_SIGNATURE}"


def _note_of(study: optuna.Study | optuna.Trial) -> str:
    notes = _notes()
    return "" if notes is None else str(notes.get_note(study))


def _write_note(study: optuna.Study | optuna.Trial, text: str) -> None:
    notes, known = _notes(), _note_of(study)
    if notes is not None and known != text and (not known or known.endswith(_SIGNATURE)):
        notes.save_note(study, text)


def _notes() -> Any:
    """The module that reads and writes notes, if optuna-dashboard is installed."""
    spec = importlib.util.find_spec("optuna_dashboard")
    return None if spec is None else _loaded(Path(str(spec.origin)).with_name("_note.py"))


@functools.cache
def _loaded(path: Path) -> Any:
    """That file without the server around it, whose imports (scikit-learn, pandas) take a quarter of a short study."""
    spec = importlib.util.spec_from_file_location("optuna_dashboard_note", path) if path.exists() else None
    if spec is None or spec.loader is None:  # another version, which has its notes elsewhere
        return importlib.import_module("optuna_dashboard")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
