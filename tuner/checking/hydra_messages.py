"""Hydra's errors about overrides, in words that name the setting that was probably meant."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from hydra.core.config_loader import ConfigLoader
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override
from hydra.errors import ConfigCompositionException, MissingConfigException, OverrideParseException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import ConfigAttributeError, ConfigKeyError, OmegaConfBaseException

from note_rl.support.near_names import nearest
from tuner.checking.env_names import GROUP, as_typed_here
from tuner.checking.features import InChecking
from tuner.checking.other_libraries import called_here, chosen_here
from tuner.checking.unreadable import refusal_of
from tuner.config.composition import BUILT_MAPPINGS, HYDRA_KEYS, compose, config_loader
from tuner.config.overrides import to_hydra
from tuner.config.signatures import signature_of
from tuner.errors import UserError
from tuner.features import parts
from tuner.support.names import one_of
from tuner.support.passwords import without_password


def parse_overrides(overrides: Sequence[str], loader: ConfigLoader | None = None) -> list[Override]:
    """Parses overrides with Hydra's grammar.

    Raises:
        UserError: It cannot be read.
    """
    try:
        parsed = OverridesParser.create(config_loader=loader).parse_overrides(list(overrides))
    except OverrideParseException as error:
        raise refusal_of(overrides, str(error.override)) from error
    nameless = next((one for one in parsed if not one.key_or_group), None)
    if nameless is not None:
        word = without_password(str(nameless.input_line))
        raise UserError(f"{word} names no setting: settings are written KEY=VALUE, such as seed=3")
    return parsed


def explain(loader: ConfigLoader, config_name: str, overrides: Sequence[str], error: Exception) -> UserError:
    """The message for the user in place of Hydra's."""
    if isinstance(error, MissingConfigException) and error.missing_cfg_file == config_name:
        return UserError(f"there is no configuration {config_name}.yaml; leave --config-name out")
    culprit, before = _culprit(loader, config_name, overrides)
    if culprit is None:
        return UserError(first_sentence(error))
    if isinstance(error, MissingConfigException):
        return _explain_choice(loader, culprit, error)
    key = culprit.key_or_group
    value = "null" if culprit.value() is None else culprit.get_value_element_as_str()
    if culprit.is_delete():
        return _explain_removal(key, before)
    there = _node_at(before, key)
    if OmegaConf.is_dict(there) and (said := _explain_group(culprit, value, there, error)):
        return said
    unknown = _unknown_in(culprit, before) if isinstance(error.__cause__, _OF_KEYS) else None
    if unknown is not None:
        return _explain_key(loader, *unknown, before)
    if OmegaConf.is_list(there) and isinstance(culprit.value(), dict):
        return UserError(f"{key}={value} is not possible: {key} is a list, {key}=[...]")
    if isinstance(error.__cause__, OmegaConfBaseException) and there is not None:
        return UserError(f"{key}={value} is not possible: {first_sentence(error.__cause__)}")
    if culprit.is_add() or culprit.is_force_add():
        return UserError(f"+{key}={value}: {key} is there already; drop the +")
    return _explain_key(loader, key, value, before)


def explain_option(word: str, words: Sequence[str], config_name: str) -> UserError:
    """The error for an option that does not exist: most likely a setting was meant.

    Args:
        word: The option, such as `--num-trials` or `--num-trials=5`.
        words: All that was typed.
        config_name: Primary config of the command.
    """
    option, equals, value = word.partition("=")
    following = words[words.index(word) + 1 :][:1] if word in words else []
    if not equals and following and not following[0].startswith("-") and "=" not in following[0]:
        value = following[0]
    loader = config_loader()
    known = [*paths_of(compose(loader, config_name, [])), *loader.list_groups("")]
    close = nearest(option.lstrip("-").replace("-", "_"), known, 1)
    elsewhere = as_typed_here(value) if close == [GROUP] and value not in loader.get_group_options(GROUP) else None
    hint = one_of([elsewhere] if elsewhere else [f"{name}={value or '...'}" for name in close])
    return UserError(f"{option} is no option: settings are written KEY=VALUE{hint or ', and --help lists them'}")


def _culprit(loader: ConfigLoader, config_name: str, overrides: Sequence[str]) -> tuple[Override | None, DictConfig]:
    """The first override that makes the composition fail, and the configuration without it; groups are chosen first."""
    groups = set(loader.list_groups(""))
    parsed = sorted(parse_overrides(overrides, loader), key=lambda override: override.key_or_group not in groups)
    accepted: list[str] = []
    before = compose(loader, config_name, accepted)
    for override in parsed:
        try:
            before = compose(loader, config_name, [*accepted, str(override.input_line)])
        except (ConfigCompositionException, OmegaConfBaseException, ValueError):
            return override, before
        accepted.append(str(override.input_line))
    return None, before


_MOST_LISTED = 44


def in_words(options: Sequence[str]) -> str:
    """The choices of a group, or how many there are where nobody would read them all."""
    return ", ".join(options) if len(options) <= _MOST_LISTED else f"{len(options)} that --help lists"


def _explain_removal(key: str, before: DictConfig) -> UserError:
    if key in paths_of(before):
        return UserError(f"~{key} removes nothing: {key} is null already; leave ~{key} out")
    return UserError(f"~{key} removes nothing: there is no {key}{_names_there(key, before)}")


def _explain_choice(loader: ConfigLoader, culprit: Override, error: MissingConfigException) -> UserError:
    group, _, choice = str(error.missing_cfg_file).rpartition("/")
    if group.partition("/")[0] == GROUP:  # ALE/Pong-v5 is no folder of ours
        group, choice = GROUP, str(error.missing_cfg_file).removeprefix(f"{GROUP}/")
    if group == "space" and culprit.key_or_group != group:
        return UserError(
            f"there is no space={choice} to go with {culprit.input_line}: write space/{choice}.yaml in the folder of "
            "--config-dir, choose one that fits, such as space=dqn, or say here what is searched: "
            f"space=none '+space.agent.NAME={{low: ..., high: ...}}'"
        )
    options = sorted(loader.get_group_options(group)) if group else []
    listed = f" (there is {in_words(options)})" if options else ""
    if not choice:
        return UserError(f"{culprit.input_line} is without a choice: write {group}=NAME{listed}")
    meant = [f"{group}={name}" for name in nearest(choice, options)]
    otherwise = chosen_here(group, choice)
    if otherwise and otherwise not in meant:
        meant.append(otherwise)
    hint = one_of(meant)
    return UserError(f"there is no {group or culprit.key_or_group}={choice}{hint}{listed}")


_OF_OTHERS = ("env.kwargs", "agent.policy_kwargs")
"""Groups of arguments of an environment, or of a policy of another library: their names are not ours."""


def _explain_key(loader: ConfigLoader, key: str, value: str, before: DictConfig) -> UserError:
    """An override of something that does not exist."""
    parent, _, name = key.rpartition(".")
    target = _node_at(before, f"{parent}._target_") if parent else None
    group = next((one for one in _OF_OTHERS if key.startswith(f"{one}.") and _node_at(before, one) is not None), None)
    if group is not None:
        return UserError(f"{group} has no {key.removeprefix(f'{group}.')} yet: to add one, type +{key}={value}")
    here = called_here(key, paths_of(before))
    if here and not (isinstance(target, str) and _takes(target, name, is_near=True)):
        return UserError(f"unknown key {key}: here it is {here}")
    if key == "checkpoint" and _node_at(before, "weights") is not None:
        return UserError(f"unknown key {key}: here it is weights=last or weights=best")
    if parent in BUILT_MAPPINGS and "." not in parent:
        entry = value if value.startswith("{") else "{_target_: package.module.Name}"
        return UserError(f"{parent} has no {name} yet: to add one, type '+{key}={entry}'")
    if OmegaConf.is_dict(_node_at(before, parent)) and not len(_node_at(before, parent)):
        options = sorted(set(loader.get_group_options(parent)) - {"off", "none"})
        return UserError(f"unknown key {key}: {parent} is off; choose {parent}={' or '.join(options)} as well")
    if (remedy := _of_an_absent_group(key, before)) is not None:
        return UserError(f"unknown key {key}: {remedy}")
    if key.startswith("space."):
        return _explain_space(key, value, before)
    if isinstance(target, str) and _takes(target, name, bool(nearest(key, paths_of(before)))):
        return UserError(f"{parent} has no {name} yet: to hand it to {target}, type +{key}={value}")
    part, _, entry = parent.partition(".")
    if part in BUILT_MAPPINGS and entry in loader.get_group_options(part):
        both = ",".join([*map(str, _node_at(before, part) or ()), entry])
        return UserError(f"unknown key {key}: {part} {entry} is not chosen; choose '{part}=[{both}]'")
    return _explain_name(key, value, before, [] if "." in key else loader.list_groups(""))


def _explain_name(key: str, value: str, before: DictConfig, groups: Sequence[str]) -> UserError:
    """A key that is no setting; it may be one of the groups, which another command has."""
    if key in groups:
        return UserError(f"{key}={value} is not for this command, which has no group {key}: leave it out")
    return UserError(f"unknown key {key}{_names_there(key, before, groups)}")


def _of_an_absent_group(key: str, before: DictConfig) -> str | None:
    groups = (item for part in parts(InChecking) for item in part.absent.items())
    found = (remedy for path, remedy in groups if key.startswith(f"{path}.") and _node_at(before, path) is None)
    return next(found, None)


_OF_A_LEAF = ("low", "high", "log", "step", "choices", "transform", "of", "at_most", "when", "prior")


def _takes(target: str, name: str, is_near: bool) -> bool:
    """Whether a target has an argument that is in no configuration; one that takes anything, unless a name is near."""
    try:
        signature = signature_of(target)
    except UserError:  # there is no such target, which is said where it is to be built
        signature = None
    if signature is not None and name in signature.parameters:
        return True
    return (signature is None or signature.is_open) and not is_near


def _explain_group(culprit: Override, value: str, there: DictConfig, error: Exception) -> UserError | None:
    """A value for what is a group of settings; None if it is one that could be merged."""
    key = culprit.key_or_group
    if culprit.package is not None:
        return UserError(
            f"{culprit.input_line}: @{culprit.package} would put this choice where nothing reads it: type {key}={value}"
        )
    if re.match(rf"In '{re.escape(key)}/{re.escape(value)}': Could not override '[^']+@{re.escape(key)}\.", str(error)):
        return UserError(
            f"{key}={value}: its file chooses other groups (override), so its first line must be # @package _global_"
        )
    if not isinstance(culprit.value(), dict):
        return UserError(
            f"{key}={value} is not possible: {key} is a group of settings; set one of them{_listed(there)}"
        )
    return _replaced(key, value) if key.startswith("space.") else None


def _explain_space(key: str, value: str, before: DictConfig) -> UserError:
    """A change of what is not in the search space: of a setting that could be searched, how it is."""
    path, _, name = key.removeprefix("space.").rpartition(".")
    suffix = f".{name}"
    if name not in _OF_A_LEAF:
        path, name, suffix = key.removeprefix("space."), "", ""
    if OmegaConf.is_dict(_node_at(before, f"space.{path}")):
        if name == "choices":
            return _replaced(f"space.{path}", f"{{choices: {value}}}")
        return UserError(f"space.{path} has no {name} yet: to add it, type +{key}={value}")
    current = _node_at(before, path)
    if current is not None and OmegaConf.is_dict(current) and len(current):
        rule = "is a group of settings, and no group is searched; search one of them"
        return UserError(f"{path} {rule}{_listed(current)}")
    kwargs, _, argument = path.rpartition(".")
    if current is None and kwargs == "env.kwargs":
        return UserError(
            f"{kwargs} has no {argument} yet: to search it, type '+{path}=...' '+space.{path}={{low: ..., high: ...}}'"
        )
    if current is None or OmegaConf.is_dict(current):
        close = nearest(path, [known for known in paths_of(before) if not known.startswith("space.")])
        hint = one_of(f"space.{known}{suffix}" for known in close) or _names_there(key, before)
        return UserError(f"unknown key {key}{hint}")
    ends = {"low": "...", "high": "..."}
    leaf = {"choices": value} if name == "choices" else {**ends, name: value} if name else ends
    written = "{" + ", ".join(f"{inner}: {text}" for inner, text in leaf.items()) + "}"
    if not name and value.startswith("{"):
        written = value
    return UserError(f"{path} is not searched yet: to add it to the space, type '+space.{path}={written}'")


def _replaced(key: str, value: str) -> UserError:
    """A leaf in the place of another one."""
    return UserError(f"{key} is searched in another way: to put this in its place, type '~{key}' '+{key}={value}'")


def _names_there(key: str, config: DictConfig, groups: Sequence[str] = ()) -> str:
    """A hint for a refusal: the nearest names, or the names in the innermost existing part of the path."""
    close = nearest(key, [*paths_of(config), *groups])
    if close:
        return one_of(close)
    parent = key.rpartition(".")[0]
    while parent:
        node = _node_at(config, parent)
        names = [name for name in map(str, node) if name not in HYDRA_KEYS] if OmegaConf.is_dict(node) else []
        if names:
            return f"; {parent} has {', '.join(names)}"
        if OmegaConf.is_list(node):
            return f"; {parent} has {len(node)} entries, the first of which is {parent}.0"
        parent = parent.rpartition(".")[0]
    return "; --cfg job shows all there are"


def _node_at(config: DictConfig, path: str) -> Any:
    """The node at a path; None if there is none, or the path cannot exist."""
    try:
        return OmegaConf.select(config, path)
    except OmegaConfBaseException:  # a path through a value, a reference to nothing
        return None


_OF_KEYS = (ConfigKeyError, ConfigAttributeError)


def _unknown_in(culprit: Override, before: DictConfig) -> tuple[str, str] | None:
    """Path and value of the first thing in a typed `{...}` that is in no configuration."""
    typed, known = culprit.value(), paths_of(before)
    paths = _typedpaths_of(typed, culprit.key_or_group) if isinstance(typed, dict) else ()
    return next((one for one in paths if one[0] not in known), None)


def _typedpaths_of(typed: Mapping[Any, Any], prefix: str) -> Iterator[tuple[str, str]]:
    """Path and value of everything in a typed `{...}`, a group of it before what is in it."""
    for key, value in typed.items():
        path = f"{prefix}.{key}"
        yield path, to_hydra(value)
        if isinstance(value, dict):
            yield from _typedpaths_of(value, path)


def _listed(group: DictConfig) -> str:
    names = [name for name in map(str, group) if name not in HYDRA_KEYS]
    return f": {', '.join(names)}" if names else ""


def paths_of(config: DictConfig, prefix: str = "") -> list[str]:
    """Dotted paths of all nodes, Hydra's own left out."""
    paths = []
    for key, node in config.items_ex(resolve=False):
        name = str(key)
        if (not prefix and name == "hydra") or name in HYDRA_KEYS:
            continue
        path = f"{prefix}.{name}" if prefix else name
        paths.append(path)
        if OmegaConf.is_dict(node) and not OmegaConf.is_interpolation(config, name) and len(node):
            paths.extend(paths_of(node, path))
    return paths


def first_sentence(error: BaseException) -> str:
    """Hydra's message without its hints."""
    lines = [line.strip() for line in str(error).splitlines()]
    kept = [line for line in lines if line and "use +" not in line and "https://" not in line and line[-1:] != ":"]
    first = kept[0].rstrip(".") if kept else type(error).__name__
    return "a list and a group of settings meet in one place" if first.startswith("Cannot merge ") else first
