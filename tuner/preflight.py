"""Composes a command's configuration and says in a line or two what is wrong with it, before anything runs.

Hydra's own answers ("to append to your config use +...") are replaced by the names the user may have meant.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from hydra._internal.config_loader_impl import ConfigLoaderImpl
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import IntervalSweep, Override, ValueType
from hydra.errors import ConfigCompositionException, HydraException, MissingConfigException, OverrideParseException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException
from yaml import YAMLError

from tuner.config import BUILT_MAPPINGS, HYDRA_KEYS, compose, config_loader
from tuner.config_folders import admit_folder
from tuner.errors import UserError
from tuner.names import nearest
from tuner.passwords import without_password
from tuner.trust import trusted_modules

_MOST_ALTERNATIVES = 16  # of one sweep, checked one by one; the jobs of the others check themselves


@dataclass(frozen=True)
class Preflight:
    """A composed and checked configuration, interpolations unresolved, and where the command writes.

    Attributes:
        config: Without Hydra's own part.
        folder: Of a single run.
        sweep_folder: Of a multirun, above the folders of its runs.
    """

    config: DictConfig
    folder: Path
    sweep_folder: Path


def preflight(config_name: str, overrides: Sequence[str] = (), config_dir: str | Path | None = None) -> DictConfig:
    """The composed and checked configuration of a command.

    Args:
        config_name: Primary config: train, tune, play.
        overrides: As on the command line. Of a sweep, every value is checked and the first one is used.
        config_dir: A user's own folder of groups.

    Raises:
        UserError: What is wrong and what to type instead.
        note_rl.errors.NoteRLError: What the training core refuses.
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
    admit_groups(config_dir, overrides)
    loader = config_loader(config_dir)
    first, *others = _without_sweeps(loader, overrides, multirun)
    _refuse_strange_choices(loader, overrides)
    known = _known_keys(config_name, config_dir)
    _refuse_search(config_name, first, known)
    found = _check(loader, config_name, first, known, with_run)
    for variant in others:
        _check(loader, config_name, variant, known, with_run)
    return found


def admit_groups(config_dir: str | Path | None, overrides: Sequence[str]) -> None:
    """Refuses a `--config-dir` of a run or study that names code nobody has vouched for; only what is typed vouches.

    Raises:
        UserError: See `tuner.config_folders`.
    """
    if config_dir is not None and Path(config_dir).is_dir():
        typed = [override.value() for override in _parse(overrides) if override.key_or_group == "trust"]
        admit_folder(Path(config_dir), trusted_modules(typed[-1] if typed else None))


def compose_or_explain(loader: ConfigLoaderImpl, config_name: str, overrides: Sequence[str]) -> DictConfig:
    """Composes; what Hydra refuses becomes a UserError.

    Raises:
        UserError: With the nearest names where a name is wrong.
    """
    try:
        return compose(loader, config_name, overrides)
    except (HydraException, OmegaConfBaseException, ValueError) as error:  # Hydra raises ValueError for agent=null
        raise _explain(loader, config_name, overrides, error) from error
    except YAMLError as error:
        raise UserError(f"a configuration file cannot be read: {' '.join(str(error).split())}") from error


def _check(
    loader: ConfigLoaderImpl, config_name: str, overrides: Sequence[str], known: frozenset[str], with_run: bool
) -> Preflight:
    from tuner import checks  # brings Gymnasium, which --help can do without

    config = compose_or_explain(loader, config_name, overrides)
    resolved = checks.check_config(config, known, config_name, loader.get_group_options)
    if with_run and "training" in resolved:
        checks.check_run(resolved)
    folder, sweep_folder = _folder_of(config, "run"), _folder_of(config, "sweep")
    config = config.copy()
    OmegaConf.set_struct(config, False)
    del config["hydra"]
    OmegaConf.set_struct(config, True)
    return Preflight(config, folder, sweep_folder)


def _folder_of(config: DictConfig, kind: str) -> Path:
    """Where Hydra is told to write."""
    try:
        return Path(str(config.hydra[kind].dir)).absolute()
    except OmegaConfBaseException as error:
        raise UserError(
            f"hydra.{kind}.dir cannot be made out: {_first_sentence(error)}; type hydra.{kind}.dir=FOLDER, or leave "
            "what is missing in place"
        ) from error


def _refuse_search(config_name: str, overrides: Sequence[str], known: frozenset[str]) -> None:
    """An experiment file may say how it is searched, whoever runs it; what is typed must mean something."""
    for override in [] if "study" in known else _parse(overrides):
        if override.key_or_group.partition(".")[0] == "study":
            raise UserError(f"{override.input_line}: {config_name} runs no study; tuner tune does")


def _refuse_strange_choices(loader: ConfigLoaderImpl, overrides: Sequence[str]) -> None:
    """A choice of a group is a name, or a list of names; Hydra falls over anything else, or explains it badly."""
    for override in _parse(overrides):
        key, value = override.key_or_group, override.value()
        is_choice = isinstance(value, str) or (isinstance(value, list) and all(isinstance(one, str) for one in value))
        if is_choice or override.is_delete() or override.is_sweep_override() or key not in loader.list_groups(""):
            continue
        options = ", ".join(sorted(loader.get_group_options(key)))
        raise UserError(f"{override.input_line} is not possible: choose one of {options}")


@cache
def _known_keys(config_name: str, config_dir: str | Path | None) -> frozenset[str]:
    """Top-level keys of the primary config as it is written; a run's own always belong to them."""
    plain = compose_or_explain(config_loader(config_dir), config_name, [])
    return frozenset(str(key) for key in plain if key != "hydra")


def _parse(overrides: Sequence[str], loader: ConfigLoaderImpl | None = None) -> list[Override]:
    try:
        return OverridesParser.create(config_loader=loader).parse_overrides(list(overrides))
    except OverrideParseException as error:
        raise UserError(
            f"cannot read {without_password(str(error.override))!r}: settings are written KEY=VALUE; quote a value "
            "with spaces, commas or brackets twice: 'key=\"a, b\"'"
        ) from error


def _without_sweeps(loader: ConfigLoaderImpl, overrides: Sequence[str], multirun: bool) -> Iterator[list[str]]:
    """The overrides with the first value of every sweep; then, for each further value, with that one instead."""
    parsed = _parse(overrides, loader)
    sweeps = [str(override.input_line) for override in parsed if override.is_sweep_override()]
    if sweeps and not multirun:
        key, _, listed = sweeps[0].partition("=")
        raise UserError(
            f"{sweeps[0]} lists several values: add -m to run each of them, or write a list as {key}=[{listed}]"
        )
    values = [_sweep_values(override) for override in parsed]
    first = [alternatives[0] for alternatives in values]
    yield first
    for index, alternatives in enumerate(values):
        for value in alternatives[1:]:
            yield [*first[:index], value, *first[index + 1 :]]


def _sweep_values(override: Override) -> list[str]:
    """An override for each value of a sweep; of a range, for its first one."""
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
    num_checked = 1 if override.value_type == ValueType.RANGE_SWEEP else _MOST_ALTERNATIVES
    return [f"{key}={text}" for text in texts[:num_checked]]


def _explain(loader: ConfigLoaderImpl, config_name: str, overrides: Sequence[str], error: Exception) -> UserError:
    """What the user should be told instead of Hydra's message."""
    if isinstance(error, MissingConfigException) and error.missing_cfg_file == config_name:
        return UserError(f"there is no configuration {config_name}.yaml; leave --config-name out")
    culprit, before = _culprit(loader, config_name, overrides)
    if culprit is None:
        return UserError(_first_sentence(error))
    if isinstance(error, MissingConfigException):
        return _explain_choice(loader, culprit, error)
    key = culprit.key_or_group
    value = "null" if culprit.value() is None else culprit.get_value_element_as_str()
    if culprit.is_delete():
        return UserError(f"~{key} removes nothing: there is no {key}{_names_there(key, before)}")
    there = _node_at(before, key)
    if OmegaConf.is_dict(there) and not isinstance(culprit.value(), dict):
        return UserError(
            f"{key}={value} is not possible: {key} is a group of settings; set one of them{_listed(there)}"
        )
    if OmegaConf.is_list(there) and isinstance(culprit.value(), dict):
        return UserError(f"{key}={value} is not possible: {key} is a list, {key}=[...]")
    if isinstance(error.__cause__, OmegaConfBaseException) and there is not None:
        return UserError(f"{key}={value} is not possible: {_first_sentence(error.__cause__)}")
    if culprit.is_add() or culprit.is_force_add():
        return UserError(f"+{key}={value}: {key} is there already; drop the +")
    return _explain_key(loader, key, value, before)


def _culprit(
    loader: ConfigLoaderImpl, config_name: str, overrides: Sequence[str]
) -> tuple[Override | None, DictConfig]:
    """The first override that makes the composition fail, and the configuration without it; groups are chosen first."""
    groups = set(loader.list_groups(""))
    parsed = sorted(_parse(overrides, loader), key=lambda override: override.key_or_group not in groups)
    accepted: list[str] = []
    before = compose(loader, config_name, accepted)
    for override in parsed:
        try:
            before = compose(loader, config_name, [*accepted, str(override.input_line)])
        except (ConfigCompositionException, OmegaConfBaseException, ValueError):
            return override, before
        accepted.append(str(override.input_line))
    return None, before


def _explain_choice(loader: ConfigLoaderImpl, culprit: Override, error: MissingConfigException) -> UserError:
    group, _, choice = str(error.missing_cfg_file).rpartition("/")
    options = sorted(loader.get_group_options(group)) if group else []
    close = nearest(choice, options)
    hint = f"; did you mean {' or '.join(f'{group}={name}' for name in close)}?" if close else ""
    listed = f" (there is {', '.join(options)})" if options else ""
    return UserError(f"there is no {group or culprit.key_or_group}={choice}{hint}{listed}")


def _explain_key(loader: ConfigLoaderImpl, key: str, value: str, before: DictConfig) -> UserError:
    """An override of something that does not exist."""
    parent, _, name = key.rpartition(".")
    if parent == "env.kwargs" or (parent in BUILT_MAPPINGS and "." not in parent):
        return UserError(f"{parent} has no {name} yet: to add one, type +{key}={value}")
    groups = [] if "." in key else loader.list_groups("")
    own = _node_at(before, f"{parent}._target_") if parent and not nearest(key, _paths(before)) else None
    if isinstance(own, str) and not own.startswith(("note_rl.", "tuner.", "optuna.")):
        return UserError(f"{parent} has no {name} yet: to hand it to {own}, type +{key}={value}")
    return UserError(f"unknown key {key}{_names_there(key, before, groups)}")


def _names_there(key: str, config: DictConfig, groups: Sequence[str] = ()) -> str:
    """What may have been meant: the nearest names, or those that the innermost existing part of the path has."""
    close = nearest(key, [*_paths(config), *groups])
    if close:
        return f"; did you mean {' or '.join(close)}?"
    parent = key.rpartition(".")[0]
    while parent:
        node = _node_at(config, parent)
        if OmegaConf.is_dict(node):
            return f"; {parent} has {', '.join(name for name in map(str, node) if name not in HYDRA_KEYS)}"
        parent = parent.rpartition(".")[0]
    return "; --cfg job shows all there are"


def _node_at(config: DictConfig, path: str) -> Any:
    """What stands at a path; None if there is nothing, or no path could be like that."""
    try:
        return OmegaConf.select(config, path)
    except OmegaConfBaseException:  # a path through a value, a reference to nothing
        return None


def _listed(group: DictConfig) -> str:
    names = [name for name in map(str, group) if name not in HYDRA_KEYS]
    return f": {', '.join(names)}" if names else ""


def _paths(config: DictConfig, prefix: str = "") -> list[str]:
    """Dotted paths of all nodes, Hydra's own left out."""
    paths = []
    for key, node in config.items_ex(resolve=False):
        name = str(key)
        if (not prefix and name == "hydra") or name in HYDRA_KEYS:
            continue
        path = f"{prefix}.{name}" if prefix else name
        paths.append(path)
        if OmegaConf.is_dict(node) and not OmegaConf.is_interpolation(config, name) and not node._is_none():
            paths.extend(_paths(node, path))
    return paths


def _first_sentence(error: BaseException) -> str:
    """Hydra's message without its hints."""
    lines = [line.strip() for line in str(error).splitlines()]
    kept = [line for line in lines if line and "use +" not in line and "https://" not in line and line[-1:] != ":"]
    return kept[0].rstrip(".") if kept else type(error).__name__
