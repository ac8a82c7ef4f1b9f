"""The runs that folders on a command line stand for."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tuner.commands.study_loading import load, no_run_or_study, study_at
from tuner.commands.study_result import StudyResult
from tuner.config.composition import with_section_defaults
from tuner.errors import UserError
from tuner.results.features import all_stages
from tuner.results.number_format import join_words
from tuner.results.run_labels import shown_label
from tuner.runs.run_folders import has_run, written_config
from tuner.trial.messages import JsonDict


@dataclass(frozen=True)
class NamedRun:
    """A run to be drawn.

    Attributes:
        folder: Its files.
        config: As written there. It may come from anybody, and is compared, not built.
        label: Its name; None: one made of its settings.
    """

    folder: Path
    config: JsonDict
    label: str | None = None


def gather(places: Sequence[str], trust: tuple[str, ...] = ()) -> list[NamedRun]:
    """All runs behind these folders, in their order, each once.

    Args:
        places: Folders of runs, folders that hold such folders, and studies, by folder or name.
        trust: Modules outside of `tuner` that a study may name.

    Raises:
        UserError: Some of them are none of these (all are named), or a study has no winner yet.
    """
    unknown = [place for place in places if not (has_run(Path(place)) or study_at(place) or _runs_in(Path(place)))]
    if len(unknown) == 1:
        raise no_run_or_study(unknown[0])
    if unknown:
        raise UserError(f"{join_words(unknown)} are no folders of runs, of several runs, or of studies")
    found: dict[Path, NamedRun] = {}
    for place in places:
        for run in _behind(place, trust, is_alone=len(places) == 1):
            found.setdefault(run.folder.resolve(), run)
    return list(found.values())


def _behind(place: str, trust: tuple[str, ...], is_alone: bool) -> list[NamedRun]:
    """A run, the runs of a study, or those in a folder."""
    if has_run(Path(place)):
        return [_run_in(Path(place))]
    study = study_at(place)
    if study is not None:
        return _compared_in(load(study, None, trust), "" if is_alone else f"{study.name}, ")
    return [_run_in(folder) for folder in _runs_in(Path(place))]


def _runs_in(folder: Path) -> list[Path]:
    inner = [path for path in folder.iterdir() if has_run(path)] if folder.is_dir() else []
    return sorted(inner, key=lambda path: (len(path.name), path.name) if path.name.isdecimal() else (0, path.name))


def _run_in(folder: Path, label: str | None = None) -> NamedRun:
    return NamedRun(folder, with_section_defaults(written_config(folder)), label)


def _compared_in(result: StudyResult, prefix: str) -> list[NamedRun]:
    """The runs of the winner and of the default configuration, in the last stage that has both, or else the winner."""
    summary, winner = result.summary, result.winner.label
    where = f" in {summary.part_names[0]}" if summary.part_names else ""
    names = {
        summary.default_label: shown_label(summary, summary.default_label),
        winner: f"{shown_label(summary, winner)}, the winner",
    }
    labels = {label: f"{prefix}{name}{where}" for label, name in names.items()}
    for wanted in ({winner, summary.default_label}, {winner}):
        for stage in reversed(all_stages()):
            chosen = (run for run in summary.stage(stage) if run.label in wanted)
            told = (run.parts[0] if run.parts else run for run in chosen)  # curves are compared within one environment
            runs = [run for run in told if has_run(Path(run.folder))]
            if {run.label for run in runs} == wanted:
                return [_run_in(Path(run.folder), labels[run.label]) for run in runs]
    raise UserError(f"no run of {winner} in study {summary.name} is where it was: name folders of runs")
