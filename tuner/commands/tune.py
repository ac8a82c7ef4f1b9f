"""`tuner tune`: a study, from the composed config to the winner's own command line."""

import importlib.util
import shlex
import sys
from collections.abc import Container, Sequence
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path

from omegaconf import DictConfig
from rich.console import Console
from rich.markup import escape
from rich.text import Text

from tuner.checking.features import typed_again, typed_within
from tuner.commands.command import CommandModule
from tuner.commands.features import InCommands
from tuner.commands.preflight import Job
from tuner.commands.study_from_config import check_study, define, search_parts
from tuner.commands.study_loading import leads_to
from tuner.commands.study_plan import make_plan
from tuner.commands.study_result import TuneResult
from tuner.commands.winner import TrainingConfigs
from tuner.config.typed_command import typed_config_dir, typed_line
from tuner.errors import UserError
from tuner.executors.executor_factory import make_executor, warm_up
from tuner.features import parts
from tuner.reporting import FinalTable, write_page
from tuner.reporting.features import InReporting
from tuner.results.features import InResults, chosen
from tuner.results.findings import Finding
from tuner.results.insights.failures import failed_runs
from tuner.runs.adaptation_log import write_schedule
from tuner.runs.build import build_trackers
from tuner.runs.config_checks import resolve
from tuner.runs.functions import is_function
from tuner.study import (
    STOPPED,
    Listeners,
    StudyDefinition,
    StudyListener,
    StudyRunner,
    StudyStore,
    Winner,
    fill_dashboard,
    find_winner,
    how_it_stopped,
    summarise,
)
from tuner.study.run_registry import Run
from tuner.study.sampling.stored_values import check_values, sound_schedule
from tuner.study.storage.open_storage import has_studies
from tuner.study.storage.ownership import refuse_another
from tuner.study.storage.retries import STORAGE_ERRORS, explained
from tuner.study.watching.display import study_display
from tuner.study.watching.study_run import StudyRunListener
from tuner.study.watching.trial_tracking import TrackingListener
from tuner.support.console import PlainConsole
from tuner.support.help_columns import width_of
from tuner.support.interrupts import EXIT_INTERRUPTED
from tuner.support.text_files import atomic_write
from tuner.trackers.base import TrackerGroup


def check(config: DictConfig, folder: Path, overrides: Sequence[str], config_dir: str | Path | None = None) -> None:
    """Refuses a search that cannot be, or not go on as it began, before anything is written."""
    if (other := _other(config)) is not None:
        other.check(config, folder, overrides, config_dir)
        return
    definition = check_study(config, overrides, config_dir)
    if has_studies(url := str(config.storage.url)):
        with StudyStore(url) as store:
            refuse_another(store, definition)


def check_jobs(jobs: Sequence[Job], config_dir: str | Path | None) -> None:
    """Refuses jobs of a sweep that would be the same study: the second one would only continue the first."""
    names: dict[tuple[str, Path], Job] = {}
    for job in jobs:
        if job.config.plan or _other(job.config) is not None:
            return  # nothing is run, or by a command that has names of its own
        definition = define(job.config, job.overrides, config_dir)
        known = names.setdefault((str(job.config.storage.url), definition.study_folder), job)
        if known is not job:
            unlike = [pair for pair in zip(known.overrides, job.overrides, strict=True) if len({*pair}) > 1]
            if not unlike:
                raise UserError(f"two jobs of this sweep are the same study, {definition.name}: list each value once")
            one, other = unlike[0]
            raise UserError(
                f"{one} and {other} are searched in the same study, {definition.name}, so that the second job would "
                "only continue the first: type a command for each, with a study.name of its own"
            )


def plan(config: DictConfig, overrides: Sequence[str], config_dir: str | Path | None) -> int:
    """Prints stages, trials, seeds, rungs and estimated minutes."""
    if (other := _other(config)) is not None:
        return other.plan(config, overrides, config_dir)
    said = make_plan(define(config, overrides, config_dir), resolve(config), width_of(sys.stdout))
    PlainConsole().print(Text(said), soft_wrap=True)
    return 0


def run(config: DictConfig, folder: Path, overrides: Sequence[str]) -> int:
    """Runs the study, or what is left of it, and says what it found."""
    if (other := _other(config)) is not None:
        return other.run(config, folder, overrides)
    console = PlainConsole()
    told = _Told()
    try:
        result = tune(config, overrides, config_dir=typed_config_dir(), console=console, listener=told)
    except STOPPED as stop:
        again = escape(typed_line("tune", typed_again(overrides), typed_config_dir()))
        console.print(
            f"{how_it_stopped(stop)}:\n  [bold]{again}[/bold]",
            highlight=False,
            soft_wrap=True,
        )
        return EXIT_INTERRUPTED
    _show(result, str(config.storage.url), console, told.notes)
    if not told.started:
        more = f"to continue it, raise study.num_trials (now {config.study.num_trials})"
        console.print(f"nothing was left to run, the study is finished; {more}", highlight=False, soft_wrap=True)
    return 0


def tune(
    config: DictConfig,
    overrides: Sequence[str] = (),
    *,
    config_dir: str | Path | None = None,
    console: Console | None = None,
    listener: StudyListener | None = None,
) -> TuneResult:
    """Runs a study, or what is left of it.

    Args:
        config: Composed from the primary config `tune`, checked.
        overrides: As typed.
        config_dir: The user's own folder of groups.
        console: Where progress is shown; None: nowhere.
        listener: Gets all events besides.

    Raises:
        StudyStopped: After Ctrl-C or SIGTERM; the same call goes on.
        UserError: The study cannot begin, or cannot go on; or it is several.
    """
    if _other(config) is not None:
        raise UserError("these settings make several studies, which are for the command line: call tuner.tune for each")
    definition = define(config, overrides, config_dir)
    resolved = resolve(config)
    sampler, pruner = search_parts(resolved)
    tracker = TrackerGroup(list(build_trackers(resolved.get("tracker")).values()))
    total_steps = int(resolved["training"]["total_steps"])
    runs = TrackingListener(tracker, definition.name, total_steps, definition.study_folder)
    whole = StudyRunListener(tracker, definition)
    with study_display(console, definition, int(resolved["executor"].get("parallel", 1))) as display:
        listeners = Listeners(display, runs, whole, listener or StudyListener())
        with ExitStack() as begun, closing(tracker):
            executor = begun.enter_context(make_executor(resolved["executor"]))
            warm_up(executor)  # while the storage is opened
            with StudyStore(resolved["storage"]["url"], display.on_note) as store:
                with whole:
                    with begun.pop_all():  # closed before the storage
                        StudyRunner(definition, store, executor, sampler, pruner, listeners).run()
                    try:
                        result = _write_outputs(definition, store, overrides, config_dir)
                    except STORAGE_ERRORS as error:
                        raise explained(error) from error
                whole.on_result(result.summary, result.config)
                return result


def _other(config: DictConfig) -> CommandModule | None:
    """A feature's command in place of one study; None: no feature has one for this config."""
    return next(filter(None, (part.tuned(config) for part in parts(InCommands))), None)


def _write_outputs(
    definition: StudyDefinition, store: StudyStore, overrides: Sequence[str], config_dir: str | Path | None
) -> TuneResult:
    """Writes down how to train the winner again, two ways; every one of them, if the study chose more than one.

    Of runs with parts, in the first environment, and a file for each of the others.
    """
    winner = _winner(definition, store)
    assert winner is not None, "the study came to its end"
    first, *others_there = definition.part_names or ("",)
    configs = TrainingConfigs(typed_within(overrides, first), config_dir)
    if winner.schedule and not is_function(winner.config):
        about = f"How values change in {winner.label} of study {definition.name}. To train so, train its configuration"
        write_schedule(definition.study_folder, winner.schedule, about)
    retrain = configs.overrides_for(winner.config, winner.values)
    default = configs.overrides_for(definition.run_config({}, definition.seed), {})
    store.keep_fact(definition.name, "retrain", configs.command(retrain))
    store.keep_fact(definition.name, "default", configs.command(default))
    folder = definition.study_folder
    summary = summarise(store, definition.name, folder, thorough=True)
    found = (_winner(definition, store, label) for label in chosen(summary).labels)
    others = tuple(member for member in found if member is not None and member.label != winner.label)
    for member, name in ((winner, "winner"), *((one, _file_name(one.label)) for one in (winner, *others) if others)):
        _write_experiment(definition, configs, member, name)
    for name in others_there:
        member = replace(winner, config=definition.within(name).run_config(winner.values, definition.seed))
        there = TrainingConfigs(typed_within(overrides, name), config_dir)
        _write_experiment(definition, there, member, _file_in(name))
    for name, label in (item for part in parts(InResults) for item in part.experiments(summary).items()):
        if (beside := _winner(definition, store, label)) is not None:
            _write_experiment(definition, configs, beside, name)
    fill_dashboard(store, summary, folder)
    return TuneResult(summary, folder, (winner, *others))


def _winner(definition: StudyDefinition, store: StudyStore, label: str | None = None) -> Winner | None:
    """As `find_winner`, with the config that these values give here: that in the storage may be anybody's."""
    found = find_winner(store, definition.name, label)
    if found is None:
        return None
    check_values(definition.space, found.values)
    schedule = sound_schedule(found.schedule)
    config = definition.run_config(found.values, int(found.config.get("seed", definition.seed)), schedule)
    return replace(found, config=config, schedule=schedule)


def _file_name(label: str) -> str:
    return label.replace(" ", "-")


def _file_in(environment: str) -> str:
    return f"winner-{environment}"


def _write_experiment(definition: StudyDefinition, configs: TrainingConfigs, winner: Winner, name: str) -> None:
    folder = definition.study_folder
    experiment = folder / "experiment" / f"{name}.yaml"
    experiment.parent.mkdir(exist_ok=True)
    use = configs.experiment_command(folder, winner.config, name)
    title = f"{winner.label} of study {definition.name}, the whole config.\nTrain it: {use}"
    atomic_write(experiment, configs.experiment(winner.config, title, winner.values))


class _Told(StudyListener):
    """Keeps what was said on the way, which need not be said again, and whether anything was run."""

    def __init__(self) -> None:
        self.notes: set[str] = set()
        self.started = False

    def on_start(self, run: Run) -> None:
        """Something is run."""
        self.started = True

    def on_note(self, text: str) -> None:
        """Kept."""
        self.notes.add(text)


def _show(result: TuneResult, storage: str, console: Console, told: Container[str]) -> None:
    console.print(FinalTable(result.summary))
    notes = [note for note in result.summary.notes if note not in told]
    for sentence in (result.verdict.sentence, *result.verdict.details, *notes):
        console.print(escape(sentence), highlight=False)
    lines = _commands(result, storage)
    choice = chosen(result.summary)
    others = [label for label in choice.labels if label != result.summary.winner_label]
    if others:
        lines[f"the others of {choice.name}, in the place of winner"] = " ".join(map(_file_name, others))
    there = result.summary.part_names[1:]
    if there:
        configs = TrainingConfigs(result.overrides, result.config_dir)
        for name in there:
            command = configs.experiment_command(result.folder, result.config, _file_in(name))
            lines[f"the same as a file, in {name}"] = command
    lines["look at everything"] = page_of(result)
    for what, line in lines.items():
        console.print(f"{what}:\n  [bold]{escape(line)}[/bold]", highlight=False, soft_wrap=True)
    failed = failed_runs(result.summary)
    if failed:
        console.print(escape(failed), style="yellow", highlight=False, soft_wrap=True)


def _commands(result: TuneResult, storage: str) -> dict[str, str]:
    """Commands to type next; first the one that the verdict advises."""
    summary = result.summary
    whom = chosen(summary).best
    where = f", in {summary.part_names[0]}" if summary.part_names else ""
    keeps = result.verdict.finding is Finding.DEFAULT_AS_GOOD and summary.winner_label != summary.default_label
    first = {"train the default, as the verdict advises": result.default_command} if keeps else {}
    return {
        **first,
        f"train {whom} again{where}": summary.retrain_command,
        "the same as a file": result.experiment_command,
        **{what: line for part in parts(InReporting) for what, line in part.commands(summary, result.verdict).items()},
        **({f"watch {whom.rstrip(',')}{where}": _play_command(result, storage)} if result.has_agent else {}),
        **{what: line for part in parts(InReporting) for what, line in part.watching(summary).items()},
    }


def _play_command(result: TuneResult, storage: str) -> str:
    """By the study, whose winner is played; by the run itself where nothing leads from the folder to the storage."""
    place = result.folder if leads_to(result.folder, storage) else result.best_run()
    return shlex.join(["tuner", "play", str(place)])


def page_of(result: TuneResult) -> str:
    """Where the page is, which is written; without plotly, how to get one."""
    if importlib.util.find_spec("plotly") is None:
        return f"pip install 'note-rl[report]' && tuner report {shlex.quote(result.summary.name)}"
    return str(write_page(result.summary, result.folder))
