"""`tuner ablate`: from the default configuration of a study to its winner, one change at a time, on fresh seeds."""

import importlib.util
import shlex
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, fields, replace
from pathlib import Path

from omegaconf import DictConfig
from rich.console import Console
from rich.markup import escape

from note_rl.errors import NoteRLError
from tuner.commands.preflight import admit_groups, compose_or_explain
from tuner.commands.report import require_studies
from tuner.commands.study_from_config import check_workplace, define
from tuner.commands.study_loading import load
from tuner.commands.study_result import StudyResult
from tuner.config.composition import config_loader
from tuner.config.overrides import to_hydra
from tuner.config.trust import admit, refuse_lookups, trusted_modules
from tuner.config.typed_command import TypedCommand, root_of, typed_config_dir, typed_line
from tuner.errors import UserError
from tuner.executors.executor_factory import make_executor
from tuner.features.ablation.blocks import between
from tuner.features.ablation.checking import AblateValues
from tuner.features.ablation.effects import ablation_csv, sentences
from tuner.features.ablation.facts import Ablation
from tuner.features.ablation.found_ranges import range_sentences, ranges_csv
from tuner.features.ablation.range_search import moved_parameters
from tuner.features.ablation.runner import AblationRunner, AblationTask
from tuner.features.ablation.settings import MIN_SEEDS, AblationSettings
from tuner.features.ablation.tables import AblationTable, RangesTable
from tuner.reporting import write_page
from tuner.results.features import special
from tuner.results.number_format import counted, format_value, join_words
from tuner.runs.build import build_trackers
from tuner.runs.config_checks import checked_run, resolve
from tuner.study import (
    STOPPED,
    Listeners,
    StudyDefinition,
    StudyListener,
    StudyStore,
    Winner,
    find_winner,
    how_it_stopped,
    own_home,
    summarise,
)
from tuner.study.sampling.stored_values import check_values
from tuner.study.storage.open_storage import IN_MEMORY
from tuner.study.storage.ownership import refuse_another
from tuner.study.storage.store import KEEP_SETTINGS, KEEP_SPACE
from tuner.study.watching.display import LiveDisplay, study_display
from tuner.study.watching.trial_tracking import TrackingListener
from tuner.support.console import PlainConsole
from tuner.support.interrupts import EXIT_INTERRUPTED
from tuner.support.text_files import atomic_write
from tuner.trackers.base import TrackerGroup
from tuner.trial.messages import JsonDict

CSV_FILE = "ablation.csv"
RANGES_FILE = "ranges.csv"


def check(config: DictConfig, folder: Path, overrides: Sequence[str], config_dir: str | Path | None = None) -> None:
    """Refuses an address that nothing can be behind, an executor and trackers that cannot be."""
    del folder, overrides, config_dir
    check_workplace(resolve(config))


def plan(config: DictConfig, overrides: Sequence[str], config_dir: str | Path | None) -> int:
    """Prints what would be changed, and how many runs that takes."""
    del config_dir
    subject = _subject(config, overrides)
    PlainConsole().print(escape(_plan_of(subject)), soft_wrap=True)
    return 0


def run(config: DictConfig, folder: Path, overrides: Sequence[str]) -> int:
    """Runs the ablation, or what is left of it, and says what it found."""
    del folder
    console = PlainConsole()
    subject = _subject(config, overrides)
    console.print(escape(_plan_of(subject)), soft_wrap=True)
    try:
        ablation = _measure(subject, resolve(config), console)
    except STOPPED as stop:
        typed = [word for word in overrides if not word.startswith("study.name=")]
        again = escape(typed_line("ablate", [subject.definition.name, *typed], typed_config_dir()))
        console.print(
            f"{how_it_stopped(stop)}:\n  [bold]{again}[/bold]",
            highlight=False,
            soft_wrap=True,
        )
        return EXIT_INTERRUPTED
    console.print(AblationTable(ablation))
    for sentence in sentences(ablation):
        console.print(escape(sentence), highlight=False, soft_wrap=True)
    home = subject.definition.study_folder
    atomic_write(home / CSV_FILE, ablation_csv(ablation))
    if ablation.ranges:
        console.print(RangesTable(ablation))
        for sentence in range_sentences(ablation):
            console.print(escape(sentence), highlight=False, soft_wrap=True)
        atomic_write(home / RANGES_FILE, ranges_csv(ablation))
        console.print(f"each value is in [bold]{escape(shlex.quote(str(home / RANGES_FILE)))}[/bold]", soft_wrap=True)
    console.print(f"the table is [bold]{escape(shlex.quote(str(home / CSV_FILE)))}[/bold]", soft_wrap=True)
    console.print(f"the figure is in [bold]{escape(_page(subject))}[/bold]", soft_wrap=True)
    return 0


@dataclass(frozen=True)
class _Subject:
    """A study whose winner is to be looked at."""

    task: AblationTask
    url: str

    @property
    def definition(self) -> StudyDefinition:
        return self.task.definition


def _subject(config: DictConfig, overrides: Sequence[str]) -> _Subject:
    """The study, defined as it was when it was run.

    Args:
        config: Of the command.
        overrides: As typed.

    Raises:
        UserError: There is no such study, or nothing in it that an ablation could be made of.
    """
    url, trust = str(config.storage.url), trusted_modules(resolve(config).get("trust"))
    if url in IN_MEMORY:
        raise UserError("storage.url=memory keeps no study to look at; name the storage that the study was run with")
    require_studies(url)
    result = load(config.study.name, url, trust)
    _require_winner(result)
    definition = _definition(result, url, trust)
    with StudyStore(url) as store:
        name = result.summary.name
        folder = own_home(store, name, Path(config.study.folder) / name)
        definition = replace(definition, folder=folder.parent)
        _refuse_another(store, definition, _again_as_begun(result.summary.study_command, overrides))
        winner = find_winner(store, definition.name)
    assert winner is not None, "there is one"
    settings = _settings(config)
    found = between(definition, _as_composed(definition, winner))
    moved = moved_parameters(definition.space, winner.values, settings.ranges)
    is_function = definition.probe is None  # whose arguments are checked when it is called
    is_possible = _anything if is_function else _is_possible
    return _Subject(AblationTask(definition, found, settings, is_possible, moved), url)


def _refuse_another(store: StudyStore, definition: StudyDefinition, again: str) -> None:
    """Refuses a study that its own command no longer describes; says what to type where that is known."""
    try:
        refuse_another(store, definition)
    except UserError as refusal:
        why, _, way = str(refusal).partition("\n")
        if not way.startswith((KEEP_SETTINGS, KEEP_SPACE)):
            raise
        raise UserError(f"{why}\ntype this, and then the same tuner ablate again: {again}") from refusal


def _again_as_begun(study_command: str, overrides: Sequence[str]) -> str:
    """The command that goes on with a study as it was begun, in the storage that is typed now."""
    command = TypedCommand.read(study_command)
    words = [word for word in command.overrides if root_of(word) != _STORAGE]
    words += [word for word in overrides if root_of(word) == _STORAGE]
    return typed_line("tune", [*words, "study.as_begun=true"], command.config_dir)


_STORAGE = "storage"


def _settings(config: DictConfig) -> AblationSettings:
    typed = resolve(config)
    return AblateValues(**{one.name: typed[one.name] for one in fields(AblateValues)})


def _require_winner(result: StudyResult) -> None:
    """Refuses studies that have no one winner that lies at the end of a path of changes."""
    summary = result.summary
    kinds = {
        "a sweep: each of its jobs ran once, and no default configuration with them": summary.is_sweep,
        special(summary): bool(special(summary)),
    }
    for kind, applies in kinds.items():
        if applies:
            raise UserError(
                f"study {summary.name} is {kind}. tuner ablate takes a study of one score (tuner tune study=quick)"
            )
    if not result.winners:
        raise UserError(
            f"study {summary.name} has no winner yet; go on with it: "
            f"{summary.study_command or 'the command it was started with'}"
        )


def _definition(result: StudyResult, url: str, trust: tuple[str, ...]) -> StudyDefinition:
    """The study by what was typed for it, which stands in its storage; that may be somebody else's."""
    summary = result.summary
    source = f"the storage of study {summary.name}"
    words = TypedCommand.read(summary.study_command).overrides
    typed = [word for word in words if root_of(word) not in _NOT_OF_THE_STUDY]
    refuse_lookups(typed, source)
    typed = [*typed, f"storage.url={to_hydra(url)}", f"trust=[{','.join(trust)}]"]
    config_dir = result.config_dir
    admit_groups(config_dir, [f"trust=[{','.join(trust)}]"])
    definition = define(compose_or_explain(config_loader(config_dir), "tune", typed), typed, config_dir)
    admit(definition.config, source, trust)
    return replace(definition, name=summary.name)


_NOT_OF_THE_STUDY = ("hydra", _STORAGE, "tracker", "executor", "progress", "trust", "warm_start")
"""Where a study was kept and run, whose code it trusts, how it was shown and what it began with: that of an ablation is
typed for it. A storage may be somebody else's, and must not vouch for its own code.
"""


def _as_composed(definition: StudyDefinition, winner: Winner) -> Winner:
    """The winner with the config that its values give here: that in the storage may be anybody's."""
    check_values(definition.space, winner.values)
    return replace(winner, config=definition.run_config(winner.values, definition.seed))


def _anything(config: JsonDict) -> bool:
    del config
    return True


def _is_possible(config: JsonDict) -> bool:
    """Whether the training core takes these values together."""
    try:
        checked_run(config)
    except (UserError, NoteRLError):
        return False
    return True


class AblationDisplay(LiveDisplay):
    """Of what is run behind a study: there is only one stage, and no runs but those that are announced."""

    def _planned(self, num_trials: int) -> dict[str, int]:
        return {}


def _measure(subject: _Subject, resolved: JsonDict, console: Console) -> Ablation:
    definition, executor = subject.definition, _executor(resolved["executor"], subject.definition)
    tracker = TrackerGroup(list(build_trackers(resolved.get("tracker")).values()))
    total_steps = int(definition.config.get("training", {}).get("total_steps", 0))
    runs = TrackingListener(tracker, definition.name, total_steps, definition.study_folder)
    with study_display(console, definition, int(executor.get("parallel", 1)), AblationDisplay) as display:
        listeners: StudyListener = Listeners(display, runs)
        with StudyStore(subject.url, display.on_note) as store, closing(tracker), make_executor(executor) as workers:
            return AblationRunner(subject.task, store, workers, listeners).run()


def _executor(node: JsonDict, definition: StudyDefinition) -> JsonDict:
    """The executor for the study's framework, which is not in the configuration of this command."""
    return {**node, "backend": definition.backend or "none"} if node.get("backend") == "none" else node


def _plan_of(subject: _Subject) -> str:
    found, settings = subject.task.between, subject.task.settings
    num = len(found.blocks)
    steps = [", ".join(change.words for change in block.changes) for block in found.blocks]
    lines = [
        f"study {subject.definition.name}: {counted(num, 'change')} from the default configuration to {found.label}",
        *(f"  {step}" for step in steps),
        *(f"  {one.path} hardly moved and stays at {format_value(one.before)}" for one in found.skipped),
        f"{2 * settings.num_seeds} runs show whether there is a gain; if so, {settings.fewest_runs(num)} to "
        f"{settings.most_runs(num)} in all show where it comes from, less those that are done already: "
        f"each step is measured on {settings.num_seeds} fresh seeds, and found by races on up to "
        f"{settings.num_race_seeds} others",
        *_plan_of_ranges(subject),
    ]
    return "\n".join(lines)


def _plan_of_ranges(subject: _Subject) -> list[str]:
    """The runs that check how far parameters may move; where that is not asked for, the setting for it."""
    moved, settings = subject.task.moved, subject.task.settings
    if not moved:
        return ["how far each parameter may move without a loss is not asked (ranges=true)"]
    sides, checks = 2 * len(moved), settings.num_checks
    most = sides * checks
    same = settings.num_seeds == MIN_SEEDS
    seeds, runs = (
        f"{least}" if same else f"{least} to {most_}"
        for least, most_ in ((MIN_SEEDS, settings.num_seeds), (most * MIN_SEEDS, most * settings.num_seeds))
    )
    return [
        f"how far {join_words(one.path for one in moved)} may move: up to {counted(checks, 'value')} on each side of "
        f"the winner's, each on {seeds} of the seeds of the steps: up to {runs} runs",
    ]


def _page(subject: _Subject) -> str:
    """The page of the study, written again; without plotly, how to get one."""
    name = subject.definition.name
    if importlib.util.find_spec("plotly") is None:
        return f"pip install 'note-rl[report]' && tuner report {shlex.quote(name)}"
    with StudyStore(subject.url) as store:
        home = subject.definition.study_folder
        return shlex.quote(str(write_page(summarise(store, name, home, thorough=True), home)))
