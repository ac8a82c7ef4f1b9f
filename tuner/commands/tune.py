"""`tuner tune`: a study, from the composed config to the winner's own command line."""

import importlib.util
import re
import shlex
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from hydra.core.hydra_config import HydraConfig
from hydra.core.override_parser.overrides_parser import OverridesParser
from omegaconf import DictConfig, OmegaConf
from rich.console import Console
from rich.markup import escape

from note_rl.errors import NoteRLError
from tuner.build import build_node, build_trackers
from tuner.checks import check_run, resolve
from tuner.commands.planning import make_plan
from tuner.commands.winner import TrainingConfigs
from tuner.config import RunConfig
from tuner.errors import UserError
from tuner.functions import ENTRY as FUNCTION_ENTRY
from tuner.functions import function_name, is_function
from tuner.names import did_you_mean
from tuner.protocol import Pruning, StudySettings
from tuner.records import StudySummary
from tuner.reporting import final_table, write_page
from tuner.results import Verdict, verdict
from tuner.space import Space
from tuner.study import (
    Listeners,
    StudyDefinition,
    StudyListener,
    StudyRunner,
    StudyStopped,
    StudyStore,
    find_winner,
    quiet_optuna,
    summarise,
)
from tuner.study.display import study_display
from tuner.study.samplers import require_packages
from tuner.study.storage import shown
from tuner.study.tracking import TrackingListener
from tuner.trackers.base import TrackerGroup
from tuner.trial.messages import JsonDict

EXIT_STOPPED = 130
WARM_STARTS = {"off": "off", "False": "off", "default": "default", "on": "default", "True": "default"}
"""YAML takes a bare off and on for truth values."""

_OWN_KEYS = ("name", "folder", "size")


@dataclass(frozen=True)
class TuneResult:
    """What a study has to show.

    Attributes:
        summary: All runs and everything known of the study.
        verdict: What may be said about the winner.
        config: The winner's whole run config.
        overrides: What `tuner train` and `tuner.train` need to train the winner again.
        experiment_file: The whole winning config as an experiment.
        experiment_command: The command line that trains from that file.
        folder: Of the study.
    """

    summary: StudySummary
    verdict: Verdict
    config: JsonDict
    overrides: tuple[str, ...]
    experiment_file: Path
    experiment_command: str
    folder: Path

    @property
    def best_params(self) -> Mapping[str, Any]:
        """The winner's searched values by config path."""
        assert self.summary.winner_label is not None
        return self.summary.params_of(self.summary.winner_label)


def check(config: DictConfig, folder: Path, overrides: Sequence[str], config_dir: str | Path | None = None) -> None:
    """Refuses a search that cannot be, before anything is written."""
    del folder, config_dir
    _check_ends(define(config, overrides))


def _check_ends(definition: StudyDefinition) -> None:
    """Refuses values in the space that no run can have: each end of a range and each choice, one at a time.

    Numbers of the buffer and of environments depend on each other: whether they fit is known only when all are drawn.
    """
    for parameter in definition.space.parameters:
        if parameter.path.startswith("buffer.") or parameter.path == "env.num_envs":
            continue
        for drawn in parameter.ends:
            value = parameter.value(drawn, definition.config)
            together = {path: choices[0] for path, choices in parameter.when.items()}
            try:
                check_run(definition.run_config({**together, parameter.path: value}, seed=0))
            except (UserError, NoteRLError) as error:
                raise UserError(f"space.{parameter.path} reaches {value}, and no run can have that: {error}") from error


def _without_password(override: str) -> str:
    key, equals, value = override.partition("=")
    return f"{key}{equals}{shown(value)}" if key.lstrip("+") == "storage.url" else override


def run(config: DictConfig, folder: Path, overrides: Sequence[str]) -> int:
    """Runs the study, or what is left of it, and says what it found."""
    del folder  # study.folder says where studies live
    console = Console()
    if config.plan:
        console.print(make_plan(define(config, overrides), resolve(config)), highlight=False)
        return 0
    try:
        result = tune(config, overrides, config_dir=typed_config_dir(), console=console)
    except StudyStopped as stop:
        again = escape(shlex.join(["tuner", "tune", *overrides]))
        console.print(f"{stop}; the same command goes on: [bold]{again}[/bold]")
        return EXIT_STOPPED
    _show(result, console)
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
        overrides: What was typed.
        config_dir: The user's own folder of groups.
        console: Where progress is shown; None: nowhere.
        listener: Told of everything besides.

    Raises:
        StudyStopped: After Ctrl-C or SIGTERM; the same call goes on.
        UserError: The study cannot begin, or cannot go on.
    """
    definition = define(config, overrides)
    resolved = resolve(config)
    for part in ("sampler", "pruner"):
        require_packages(str(resolved[part]["_target_"]).rpartition(".")[2])
    with quiet_optuna():
        sampler = build_node("sampler", {**resolved["sampler"], "_partial_": True})
        pruner = build_node("pruner", resolved["pruner"])
    tracker = TrackerGroup(list(build_trackers(resolved["tracker"]).values()))
    total_steps = int(resolved["training"]["total_steps"])
    tracking = TrackingListener(tracker, definition.name, total_steps, definition.study_folder)
    with study_display(console, definition, int(resolved["executor"].get("parallel", 1))) as display:
        listeners = Listeners(display, tracking, listener or StudyListener())
        with StudyStore(resolved["storage"]["url"], display.on_note) as store:
            try:
                with closing(build_node("executor", resolved["executor"])) as executor:
                    StudyRunner(definition, store, executor, sampler, pruner, listeners).run()
            finally:
                tracker.close()
            return _take_home(definition, store, TrainingConfigs(overrides, config_dir))


def define(config: DictConfig, overrides: Sequence[str] = ()) -> StudyDefinition:
    """The study that a composed config describes.

    Raises:
        UserError: Its search or its sizes make no sense.
    """
    resolved = resolve(config)
    study = resolved["study"]
    run_config = run_config_of(resolved)

    def configure(values: JsonDict) -> JsonDict:
        changed = config.copy()
        for path, value in values.items():
            OmegaConf.update(changed, path, value, merge=False)
        return run_config_of(resolve(changed))

    agent = function_name(run_config).lower()
    found = StudyDefinition(
        name=study["name"] or _default_name(agent, run_config, study["size"], resolved["seed"]),
        config=run_config,
        space=Space.from_config(resolved["space"], run_config, _fixed(overrides)),
        settings=_settings({key: value for key, value in study.items() if key not in _OWN_KEYS}),
        seed=resolved["seed"],
        agent=agent,
        folder=Path(study["folder"]),
        configure=configure,
        warm_start=WARM_STARTS.get(str(resolved["warm_start"]), str(resolved["warm_start"])),
        facts={"command": shlex.join(["tuner", "tune", *map(_without_password, overrides)])},
    )
    return replace(found, entry=FUNCTION_ENTRY, probe=None) if is_function(run_config) else found


def run_config_of(resolved: JsonDict) -> JsonDict:
    """The part of a config that one run is made from; trackers are the controller's business."""
    return {
        part.name: resolved[part.name] for part in fields(RunConfig) if part.name != "tracker" and part.name in resolved
    }


def _default_name(agent: str, config: JsonDict, size: str, seed: int) -> str:
    world = [] if is_function(config) else [config["env"]["id"], config["backend"]["name"]]
    parts = [agent, *world, size, *([f"seed{seed}"] if seed else [])]
    return re.sub(r"[^\w.=-]+", "-", "-".join(map(str, parts)))


def _fixed(overrides: Sequence[str]) -> set[str]:
    """The settings that were typed; choices of groups are among them and do no harm."""
    parsed = OverridesParser.create().parse_overrides(list(overrides))
    return {str(override.key_or_group) for override in parsed if not override.is_delete()}


def _settings(node: JsonDict) -> StudySettings:
    pruning = dict(node.pop("pruning", {}))
    for prefix, keys, kind in (("study.", node, StudySettings), ("study.pruning.", pruning, Pruning)):
        known = [part.name for part in fields(kind)]
        for key in keys:
            if key not in known:
                raise UserError(f"unknown key {prefix}{key}{did_you_mean(key, known)}")
    rungs = pruning.get("rungs", Pruning.rungs)
    return StudySettings(**node, pruning=Pruning(**{**pruning, "rungs": tuple(rungs)}))


def typed_config_dir() -> Path | None:
    """The folder given with --config-dir, which Hydra has kept for itself."""
    if not HydraConfig.initialized():
        return None
    sources = HydraConfig.get().runtime.config_sources
    folders = [Path(str(source.path)) for source in sources if source.provider == "command-line"]
    return next(
        (folder.relative_to(Path.cwd()) if folder.is_relative_to(Path.cwd()) else folder for folder in folders), None
    )


def _take_home(definition: StudyDefinition, store: StudyStore, configs: TrainingConfigs) -> TuneResult:
    """Writes down how to train the winner again, two ways."""
    winner = find_winner(store, definition.name)
    assert winner is not None, "the study came to its end"
    overrides = configs.overrides_for(winner.config, winner.values)
    store.keep_fact(definition.name, "retrain", configs.command(overrides))
    folder = definition.study_folder
    experiment = folder / "experiment" / "winner.yaml"
    experiment.parent.mkdir(exist_ok=True)
    use = configs.experiment_command(folder, winner.config)
    title = f"{winner.label} of study {definition.name}, the whole config.\nTrain it: {use}"
    experiment.write_text(configs.experiment(winner.config, title))
    summary = summarise(store, definition.name, folder)
    return TuneResult(summary, verdict(summary), winner.config, tuple(overrides), experiment, use, folder)


def _show(result: TuneResult, console: Console) -> None:
    console.print(final_table(result.summary))
    for sentence in (result.verdict.sentence, *result.verdict.details, *result.summary.notes):
        console.print(escape(sentence), highlight=False)
    lines = {
        "train the winner again": result.summary.retrain_command,
        "the same as a file": result.experiment_command,
        "look at everything": _page(result),
    }
    for what, line in lines.items():
        console.print(f"{what}:\n  [bold]{escape(line)}[/bold]", highlight=False, soft_wrap=True)


def _page(result: TuneResult) -> str:
    """Where the page is; without plotly, how to get one."""
    if importlib.util.find_spec("plotly") is None:
        return f"pip install 'note-rl[report]' && tuner report {shlex.quote(result.summary.name)}"
    return str(write_page(result.summary, result.folder))
