"""Hydra's composition without reading and merging the same files again for every line."""

import copy
import os
import pickle
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from importlib.machinery import ModuleSpec
from importlib.metadata import EntryPoints
from itertools import takewhile
from pathlib import Path
from typing import Any
from unittest import mock

import omegaconf.base
from hydra import version
from hydra._internal import config_loader_impl
from hydra._internal.config_loader_impl import ConfigLoaderImpl
from hydra._internal.config_repository import CachingConfigRepository
from hydra._internal.core_plugins.file_config_source import FileConfigSource
from hydra._internal.defaults_list import DefaultsList, create_defaults_list
from hydra.core.default_element import ResultDefault
from hydra.core.object_type import ObjectType
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override
from hydra.core.utils import JobRuntime
from hydra.plugins.config_source import ConfigResult, ConfigSource
from omegaconf import DictConfig

from tuner.config import composition, hydra_internals, installed_groups, sources
from tuner.config.composition import conf_folder
from tuner.config.hydra_internals import HydraLoader

_CONF = str(conf_folder())
_PACKAGES = ("note_rl", "tuner", "gymnasium", "optuna")
_PLAIN = (
    CachingConfigRepository,
    hydra_internals.create_defaults_list,
    ConfigLoaderImpl._compose_config_from_defaults_list,
    ConfigLoaderImpl._load_single_config,
    FileConfigSource.load_config,
    ConfigLoaderImpl.load_configuration,
)

State = tuple[tuple[object, ...], ...]
"""Of all that can be read: a file that changes makes another one."""


class _Repository(CachingConfigRepository):
    """Its sources are those that it is given: Hydra copies them with all that programs have stored."""

    def __init__(self, delegate: Any) -> None:
        self.delegate = copy.copy(delegate)
        self.delegate.sources = list(delegate.sources)
        self.cache = {}


@contextmanager
def remembering_files() -> Iterator[None]:
    """Each file of conf/ is read once; others, and each choice that is merged, while no file of a folder changes.

    So is each line composed once, by Hydra itself, whatever the working directory is.
    """
    read: dict[State, dict[str, ConfigResult | None]] = {}
    options: dict[tuple[State, str, ObjectType | None], list[str]] = {}
    listed: dict[tuple[State, object, tuple[str, ...], tuple[object, ...]], DefaultsList] = {}
    _, list_defaults, *_ = _PLAIN

    class Repository(_Repository):
        def __init__(self, delegate: Any) -> None:
            super().__init__(delegate)
            self._look()

        def initialize_sources(self, config_search_path: Any) -> None:
            super().initialize_sources(config_search_path)
            self._look()

        def _look(self) -> None:
            self.state = state_of(self.get_sources())
            self.cache = read.setdefault(self.state, {})

        def get_group_options(
            self, group_name: str, results_filter: ObjectType | None = ObjectType.CONFIG
        ) -> list[str]:
            key = (self.state, group_name, results_filter)
            if key not in options:
                options[key] = super().get_group_options(group_name, results_filter)
            return list(options[key])

    def list_once(config_name: str, overrides_list: list[Override], repo: Any, **others: Any) -> DefaultsList:
        chosen = [one for one in overrides_list if repo.group_exists(one.key_or_group)]
        key = (repo.state, config_name, tuple(str(one.input_line) for one in chosen), tuple(others.items()))
        if key not in listed:
            listed[key] = list_defaults(config_name=config_name, overrides_list=chosen, repo=repo, **others)
        found = copy.copy(listed[key])
        left = {one.input_line for one in found.config_overrides}
        rest = [one for one in overrides_list if one not in chosen and not one.is_sweep_override()]
        found.config_overrides = [one for one in overrides_list if one in rest or one.input_line in left]
        return found

    with (
        _composing_with(Repository, list_once, *_merging_once(), _loading_once(), _composing_once()),
        mock.patch.object(sources, "find_inside", _finding_once()),
        mock.patch.object(installed_groups, "entry_points", _entering_once()),
        mock.patch.object(OverridesParser, "parse_rule", _parsing_once()),
        mock.patch.object(omegaconf.base, "parse", cache(omegaconf.base.parse)),  # of references, to trees that stay
    ):
        yield


def _merging_once() -> tuple[Callable[..., DictConfig], Callable[..., Any]]:
    """Merges the same choices once, and Hydra's own part, with which all begin; reads each choice of them once."""
    _, _, merge, load_part, *_ = _PLAIN
    merged: dict[tuple[State, str], bytes] = {}
    parts: dict[tuple[State, str], bytes] = {}

    def merge_once(loader: ConfigLoaderImpl, defaults: list[ResultDefault], repo: Any) -> DictConfig:
        key = (repo.state, "\n".join(map(repr, defaults)))
        if key not in merged:
            own = list(takewhile(lambda one: str(one.config_path).startswith("hydra/"), defaults))
            begun = [_Begun(merge_once(loader, own, repo))] if 0 < len(own) < len(defaults) else own
            merged[key] = pickle.dumps(merge(loader, [*begun, *defaults[len(own) :]], repo))
        found: DictConfig = pickle.loads(merged[key])
        return found

    def load_part_once(loader: ConfigLoaderImpl, default: ResultDefault, repo: Any) -> Any:
        if isinstance(default, _Begun):
            return default
        key = (repo.state, repr(default))
        if key not in parts:
            parts[key] = pickle.dumps(load_part(loader, default, _Repository(repo.delegate)))
        return pickle.loads(parts[key])

    return merge_once, load_part_once


class _Begun(ResultDefault):
    """In the place of files whose merged configuration is there already."""

    def __init__(self, config: DictConfig) -> None:
        super().__init__()
        self.config = config


def _finding_once() -> Callable[[str, list[str]], ModuleSpec | None]:
    """Looks each module up once that no test makes."""
    find = sources.find_inside
    found: dict[tuple[str, ...], ModuleSpec | None] = {}

    def find_once(name: str, places: list[str]) -> ModuleSpec | None:
        if name.partition(".")[0] not in _PACKAGES:
            return find(name, places)
        key = (name, *places)
        if key not in found:
            found[key] = find(name, places)
        return found[key]

    return find_once


def _entering_once() -> Callable[..., EntryPoints]:
    """Looks once for the entry points of installed packages: each working directory makes another import path."""
    find = installed_groups.entry_points
    found: dict[tuple[object, ...], EntryPoints] = {}

    def find_once(group: str) -> EntryPoints:
        installed = sorted(file for place in sys.path for file in Path(place).glob("*.*-info"))
        key = (group, *installed)
        if key not in found:
            found[key] = find(group=group)
        return found[key]

    return find_once


def _parsing_once() -> Callable[[OverridesParser, str, str], Any]:
    """Parses each override once; Hydra's parser takes longer for one than anything else that is done with it."""
    parse = OverridesParser.parse_rule
    parsed: dict[tuple[str, str], bytes] = {}

    def parse_once(parser: OverridesParser, text: str, rule_name: str) -> Any:
        key = (text, rule_name)
        if key not in parsed:
            parsed[key] = pickle.dumps(parse(parser, text, rule_name))
        return pickle.loads(parsed[key])

    return parse_once


def _loading_once() -> Callable[[FileConfigSource, str], ConfigResult]:
    """Reads each file of conf/ once, whatever other folders there are."""
    *_, load, _ = _PLAIN
    parsed: dict[tuple[str, str], bytes] = {}

    def load_once(source: FileConfigSource, config_path: str) -> ConfigResult:
        if source.path != _CONF:
            return load(source, config_path)
        key = (source.provider, config_path)
        if key not in parsed:
            parsed[key] = pickle.dumps(load(source, config_path))
        found: ConfigResult = pickle.loads(parsed[key])
        return found

    return load_once


def _composing_once() -> Callable[..., DictConfig]:
    """Composes each line once, unless it adds folders or takes values from the environment."""
    *_, compose = _PLAIN
    composed: dict[tuple[object, ...], bytes] = {}

    def compose_once(
        loader: ConfigLoaderImpl, config_name: str | None, overrides: list[str], *how: Any, **named: Any
    ) -> DictConfig:
        of_line = (config_name, *overrides, how, *named.items())
        of_process = (version.getbase(), JobRuntime.instance().get("name"))
        sources = loader.repository.get_sources()
        places = tuple(source.path for source in sources)  # the configuration names them
        key = (type(loader), state_of(sources), places, of_line, of_process)
        if key not in composed:
            config: DictConfig = compose(loader, config_name, overrides, *how, **named)
            if not config.hydra.searchpath and not config.hydra.job.env_copy:
                composed[key] = pickle.dumps(config)
            return config
        found: DictConfig = pickle.loads(composed[key])
        found.hydra.runtime.cwd = os.getcwd()
        return found

    return compose_once


@contextmanager
def reading_files() -> Iterator[None]:
    """Within `remembering_files`: as `tuner` does it."""
    with (
        _composing_with(*_PLAIN),
        mock.patch.object(config_loader_impl, "create_defaults_list", create_defaults_list),
    ):
        yield


@contextmanager
def hydra_alone() -> Iterator[None]:
    """Within `remembering_files`: as Hydra does it, without the loader of `tuner`."""
    with (
        reading_files(),
        mock.patch.object(composition, "ConfigLoader", ConfigLoaderImpl),
    ):
        yield


@contextmanager
def _composing_with(
    repository: type[CachingConfigRepository], list_defaults: Any, merge: Any, load_part: Any, load: Any, compose: Any
) -> Iterator[None]:
    with (
        mock.patch.object(config_loader_impl, "CachingConfigRepository", repository),
        mock.patch.object(config_loader_impl, "create_defaults_list", list_defaults),
        mock.patch.dict(HydraLoader._load_configuration_impl.__globals__, create_defaults_list=list_defaults),
        mock.patch.object(ConfigLoaderImpl, "_compose_config_from_defaults_list", merge),
        mock.patch.object(ConfigLoaderImpl, "_load_single_config", load_part),
        mock.patch.object(FileConfigSource, "load_config", load),
        mock.patch.object(ConfigLoaderImpl, "load_configuration", compose),
    ):
        yield


def state_of(sources: list[ConfigSource]) -> State:
    """Where the sources are, and what lies in them."""
    return tuple(
        (source.provider, source.scheme(), *(_files(source.path) if _comes_and_goes(source) else (source.path,)))
        for source in sources
    )


def _comes_and_goes(source: ConfigSource) -> bool:
    """Whether it is a folder of a test: nobody writes into conf/ while tests run."""
    return source.scheme() == "file" and source.path != _CONF


def _files(folder: str) -> Iterator[tuple[str, bytes]]:
    """Contents of the files of a folder, by their paths within."""
    for place, _, names in os.walk(folder):
        for name in names:
            if name.endswith((".yaml", ".yml")):
                path = Path(place, name)
                yield os.path.relpath(path, folder), path.read_bytes()
