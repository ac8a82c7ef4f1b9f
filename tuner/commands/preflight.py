"""Composes a command's configuration and says in a line or two what is wrong with it, before anything runs.

Hydra's own answers ("to append to your config use +...") are replaced in `tuner.checking.hydra_messages`.
"""

import re
from collections.abc import Container, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from hydra.core.override_parser.types import IntervalSweep, Override, ValueType
from hydra.errors import HydraException
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException
from yaml import YAMLError

from note_rl.errors import NoteRLError
from tuner.checking.config_folders import admit_composed, admit_folder, is_of_a_run
from tuner.checking.features import InChecking
from tuner.checking.hydra_messages import explain, first_sentence, in_words, parse_overrides
from tuner.commands.class_defaults import say_overruled
from tuner.config.cached_loader import ConfigLoader
from tuner.config.composition import RunConfig, compose, config_loader
from tuner.config.overrides import to_hydra
from tuner.config.trust import trusted_modules
from tuner.errors import UserError
from tuner.features import parts

_MOST_ALTERNATIVES = 16  # of one sweep, checked one by one; the jobs of the others check themselves


@dataclass(frozen=True)
class Job:
    """One job of a sweep, as it is checked.

    Attributes:
        overrides: What is typed for it.
        config: Composed of it.
    """

    overrides: tuple[str, ...]
    config: DictConfig


@dataclass(frozen=True)
class Preflight:
    """A composed and checked configuration, interpolations unresolved, and where the command writes.

    Attributes:
        config: Without Hydra's own part.
        folder: Of a single run.
        sweep_folder: Of a multirun, above the folders of its runs.
        multirun: Whether the configuration itself asks for several runs, by hydra.mode.
        jobs: Of a sweep, the first one, and for each further value the one that has it in place of the first.
    """

    config: DictConfig
    folder: Path
    sweep_folder: Path
    multirun: bool
    jobs: tuple[Job, ...] = ()


def preflight(config_name: str, overrides: Sequence[str] = (), config_dir: str | Path | None = None) -> DictConfig:
    """The composed and checked configuration of a command.

    Args:
        config_name: Primary config: train, tune, play.
        overrides: As on the command line. Of a sweep, every value is checked and the first one is used.
        config_dir: A user's own folder of groups.

    Raises:
        UserError: A setting or a combination of settings is wrong; the message says what to type instead.
        note_rl.errors.NoteRLError: The training core refuses a setting.
    """
    return check_command(config_name, overrides, config_dir, multirun=True).config


def check_command(
    config_name: str,
    overrides: Sequence[str] = (),
    config_dir: str | Path | None = None,
    *,
    multirun: bool = False,
    with_run: bool = True,
) -> Preflight:
    """As `preflight`, with the folders.

    Args:
        config_name: Primary config.
        overrides: As on the command line.
        config_dir: A user's own folder of groups.
        multirun: Whether overrides may list several values.
        with_run: Whether the config is one of a training run, whose environment and settings are checked too.
    """
    admit_groups(config_dir, overrides, config_name)
    loader = config_loader(config_dir)
    first, *others = _without_sweeps(loader, overrides, multirun)
    for variant in (first, *others):
        for part in parts(InChecking):
            part.one_only(variant, config_name)
    _refuse_strange_choices(loader, overrides)
    known = _known_keys(config_name, config_dir and Path(config_dir).absolute())
    _refuse_search(config_name, first, known)
    if not others:
        return _check(loader, config_name, first, known, with_run)
    swept = {place for variant in others for place, word in enumerate(variant) if word != first[place]}
    checked = []
    for variant in (first, *others):
        with _naming_the_job([variant[place] for place in sorted(swept)]):
            checked.append(_check(loader, config_name, variant, known, with_run))
    jobs = [Job(tuple(variant), one.config) for variant, one in zip((first, *others), checked, strict=True)]
    return replace(checked[0], jobs=tuple(jobs))


@contextmanager
def _naming_the_job(words: Sequence[str]) -> Iterator[None]:
    """Says of what is refused in which job of a sweep it is."""
    try:
        yield
    except (UserError, NoteRLError) as error:
        raise UserError(f"in the job with {' '.join(words)}: {error}") from error


def admit_groups(config_dir: str | Path | None, overrides: Sequence[str], config_name: str | None = None) -> None:
    """Refuses a `--config-dir` of a run or study that is more than settings; only what is typed vouches for code.

    So it is with folders that are added to `hydra.searchpath`.

    Args:
        config_dir: Given as --config-dir.
        overrides: As on the command line.
        config_name: Primary config, to look through what is composed, too; None: nothing is run of it.

    Raises:
        UserError: See `tuner.checking.config_folders`.
    """
    parsed = parse_overrides(overrides)
    trust = trusted_modules({one.key_or_group: one.value() for one in parsed}.get("trust"))
    folders = {} if config_dir is None else {str(config_dir): Path(config_dir)}
    folders |= {place: Path(place.removeprefix("file://")) for one in parsed for place in _searched(one)}
    others = {place: folder for place, folder in folders.items() if folder.is_dir() and is_of_a_run(folder)}
    for folder in others.values():
        admit_folder(folder, trust)
    if not others or config_name is None:
        return
    loader, ours = config_loader(config_dir), config_loader(None if str(config_dir) in others else config_dir)
    variants = [tuple(_choices(loader, lines)) for lines in _without_sweeps(loader, overrides, multirun=True)]
    for choices in dict.fromkeys(variants):
        composed = compose_or_explain(loader, config_name, choices)
        without = compose_or_explain(ours, config_name, list(_without(others, ours, choices)))
        admit_composed(next(iter(others.values())), composed, without, trust)


def _searched(override: Override) -> list[str]:
    """The folders that an override adds to those in which Hydra looks for choices."""
    listed = override.value() if override.key_or_group == "hydra.searchpath" else []
    return [str(place) for place in (listed if isinstance(listed, list) else [listed]) if place is not None]


def _choices(loader: ConfigLoader, overrides: Sequence[str]) -> Iterator[str]:
    """The overrides that say of which files a configuration is made; values that are typed are the user's own."""
    parsed = parse_overrides(overrides)
    searched = [str(override.input_line) for override in parsed if _searched(override)]
    for override in parsed:
        key = str(override.key_or_group)
        if override.is_delete() or _is_of_hydra(key) or loader.get_group_options(key, overrides=searched):
            yield str(override.input_line)


def _without(others: Container[str], loader: ConfigLoader, overrides: Sequence[str]) -> Iterator[str]:
    """Those of them that mean something without some folders."""
    parsed = parse_overrides(overrides)
    own = [place for override in parsed for place in _searched(override) if place not in others]
    searched = [f"hydra.searchpath={to_hydra(own)}"] if own else []
    yield from searched
    for override in parsed:
        key, value = str(override.key_or_group), override.value()
        names = set(map(str, value)) if isinstance(value, list) else {str(value)}
        if _searched(override) or (override.is_delete() and not _is_of_hydra(key)):
            continue
        if _is_of_hydra(key) or names <= set(loader.get_group_options(key, overrides=searched)):
            yield str(override.input_line)


def _is_of_hydra(key: str) -> bool:
    return key.replace("/", ".").partition(".")[0] == "hydra"


def compose_or_explain(loader: ConfigLoader, config_name: str, overrides: Sequence[str]) -> DictConfig:
    """Composes; what Hydra refuses becomes a UserError.

    Raises:
        UserError: With the nearest names where a name is wrong.
    """
    try:
        return compose(loader, config_name, overrides)
    except (HydraException, OmegaConfBaseException, ValueError) as error:  # Hydra raises ValueError for agent=null
        raise explain(loader, config_name, overrides, error) from error
    except YAMLError as error:
        raise UserError(f"a configuration file cannot be read: {' '.join(str(error).split())}") from error


def _check(
    loader: ConfigLoader, config_name: str, overrides: Sequence[str], known: frozenset[str], with_run: bool
) -> Preflight:
    try:
        config = compose_or_explain(loader, config_name, overrides)
    except UserError:
        if any(override.startswith("resume=") and override != "resume=null" for override in overrides):
            from tuner.runs.run_folders import changes_of

            changes_of(overrides)  # what only the run's own file has is unknown here, and cannot be changed
        raise
    from tuner.executors.executor_factory import runs_in_this_process  # these bring Gymnasium, a third of a refusal
    from tuner.runs import config_checks
    from tuner.runs.checkpoints import check_weights
    from tuner.runs.run_folders import check_run_of_weights
    from tuner.runs.run_strategy import check_trials

    try:
        resolved = config_checks.check_config(config, known, config_name, loader.get_group_options)
    except UserError as error:
        raise UserError(f"{error}{_of_another_agent(loader, config_name, overrides)}") from error
    if isinstance(resolved.get("agent"), dict) and isinstance(resolved.get("buffer"), dict):
        say_overruled(loader, config, resolved, overrides)
    if with_run and "training" in resolved:
        config_checks.check_run(resolved)
        if resolved.get("executor") is not None and resolved.get("strategy"):
            check_trials(RunConfig.from_json(resolved), runs_in_this_process(resolved["executor"]))
        if resolved.get("init") is not None and resolved.get("resume") is None:
            check_weights(resolved["init"])
            check_run_of_weights(resolved["init"], resolved)
    folder, sweep_folder = _folder_of(config, "run"), _folder_of(config, "sweep")
    of_several = config.hydra.mode == RunMode.MULTIRUN
    OmegaConf.set_struct(config, False)
    del config["hydra"]
    OmegaConf.set_struct(config, True)
    return Preflight(config, folder, sweep_folder, of_several)


def _of_another_agent(loader: ConfigLoader, config_name: str, overrides: Sequence[str]) -> str:
    """A hint that an experiment was chosen together with another agent than its own; empty if not."""
    typed = {override.key_or_group: override.value() for override in parse_overrides(overrides, loader)}
    experiment, agent = typed.get("experiment"), typed.get("agent")
    if not isinstance(experiment, str) or not isinstance(agent, str):
        return ""
    own = compose(loader, config_name, [f"experiment={experiment}"]).hydra.runtime.choices.get("agent")
    if own == agent:
        return ""
    return f"\nexperiment={experiment} holds settings of agent={own}: leave agent={agent} out, or the experiment"


def _folder_of(config: DictConfig, kind: str) -> Path:
    """The folders in which Hydra is to write."""
    try:
        return Path(str(config.hydra[kind].dir)).absolute()
    except OmegaConfBaseException as error:
        missing = re.search(r"Interpolation key '([^']+)' not found", str(error))
        if missing:
            raise UserError(f"{missing[1]} is missing, and hydra.{kind}.dir is made of it: leave it in") from error
        raise UserError(
            f"hydra.{kind}.dir cannot be made out: {first_sentence(error)}; type hydra.{kind}.dir=FOLDER"
        ) from error


def _refuse_search(config_name: str, overrides: Sequence[str], known: frozenset[str]) -> None:
    """An experiment file may say how it is searched, for any command; what is typed must have an effect."""
    for override in [] if "study" in known else parse_overrides(overrides):
        if override.key_or_group.partition(".")[0] == "study":
            raise UserError(f"{override.input_line}: {config_name} runs no study; tuner tune does")


_ONE_ONLY = ("agent", "backend", "executor", "sampler", "pruner", "storage")
"""Groups of which several choices, whose files Hydra would merge, make no sense."""


def _refuse_strange_choices(loader: ConfigLoader, overrides: Sequence[str]) -> None:
    """A choice of a group is a name, or a list of names, and {...} are settings; Hydra falls over anything else."""
    groups: list[str] = []  # finding them takes a while, and most values are texts
    for override in parse_overrides(overrides):
        key, value = override.key_or_group, override.value()
        of_names = isinstance(value, list) and all(isinstance(one, str) for one in value)
        if isinstance(value, list) and key in _ONE_ONLY:
            names = ",".join(map(str, value))
            raise UserError(f"{override.input_line}: there can be one {key} only; -m {key}={names} runs each of them")
        if isinstance(value, str | dict) or of_names or override.is_delete() or override.is_sweep_override():
            continue
        groups = groups or loader.list_groups("")
        if key not in groups:
            continue
        options = sorted(loader.get_group_options(key))
        raise UserError(f"{override.input_line} is not possible: choose one of {in_words(options)}")


@cache
def _known_keys(config_name: str, config_dir: str | Path | None) -> frozenset[str]:
    """Top-level keys of the primary config as it is written; a run's own always belong to them."""
    plain = compose_or_explain(config_loader(config_dir), config_name, [])
    return frozenset(str(key) for key in plain if key != "hydra")


def refuse_primary_of_another(
    config_name: str, command: str, own_name: str, config_dir: str | Path | None = None
) -> None:
    """Refuses a `--config-name` that is no primary config of a command: it has to hold all that the command reads.

    Raises:
        UserError: Names what is missing.
    """
    folder = config_dir and Path(config_dir).absolute()
    missing = sorted(_known_keys(own_name, folder) - _known_keys(config_name, folder))
    if missing:
        raise UserError(
            f"--config-name {config_name} is no configuration of tuner {command}: it has no {missing[0]}; "
            f"leave it out, or begin its defaults list with {own_name}"
        )


def _without_sweeps(loader: ConfigLoader, overrides: Sequence[str], multirun: bool) -> Iterator[list[str]]:
    """The overrides with the first value of every sweep; then, for each further value, with that one instead."""
    parsed = parse_overrides(overrides, loader)
    sweeps = [str(override.input_line) for override in parsed if override.is_sweep_override()]
    if sweeps and not multirun:
        key, _, listed = sweeps[0].partition("=")
        otherwise = f", or write a list as {key}=[{listed}]" if "." in key else ""
        raise UserError(f"{sweeps[0]} lists several values: add -m to run each of them{otherwise}")
    values = [_sweep_values(override) for override in parsed]
    first = [alternatives[0] for alternatives in values]
    yield first
    for index, alternatives in enumerate(values):
        for value in alternatives[1:]:
            yield [*first[:index], value, *first[index + 1 :]]


def _sweep_values(override: Override) -> list[str]:
    """An override for each value of a sweep; of a range, for its first two."""
    line = str(override.input_line)
    if not override.is_sweep_override():
        return [line]
    key = override.get_key_element()
    sweep = override.value()
    if isinstance(sweep, IntervalSweep):
        return [f"{key}={sweep.start}"]
    texts = list(override.sweep_string_iterator())
    if not texts:
        raise UserError(f"{line} gives no value to run with")
    num_checked = 2 if override.value_type == ValueType.RANGE_SWEEP else _MOST_ALTERNATIVES
    return [f"{key}={text}" for text in texts[:num_checked]]
