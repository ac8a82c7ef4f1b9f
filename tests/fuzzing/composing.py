"""Hydra's composition without reading and merging the same files again for every line."""

import copy
import os
import pickle
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

from hydra._internal import config_loader_impl
from hydra._internal.config_loader_impl import ConfigLoaderImpl
from hydra._internal.config_repository import CachingConfigRepository
from hydra._internal.defaults_list import DefaultsList
from hydra.core.default_element import ResultDefault
from hydra.core.object_type import ObjectType
from hydra.core.override_parser.types import Override
from hydra.plugins.config_source import ConfigResult, ConfigSource
from omegaconf import DictConfig

from tuner.config.composing import conf_folder

_CONF = str(conf_folder())
_PLAIN = (
    CachingConfigRepository,
    config_loader_impl.create_defaults_list,
    ConfigLoaderImpl._compose_config_from_defaults_list,
)

State = tuple[tuple[object, ...], ...]
"""Of all that can be read: a file that changes makes another one."""


@contextmanager
def remembering_files() -> Iterator[None]:
    """Each file is read once, each choice merged once, for as long as no file of the folders changes.

    What overrides do to the merged configuration is done anew for every line, by Hydra itself.
    """
    read: dict[State, dict[str, ConfigResult | None]] = {}
    options: dict[tuple[State, str, ObjectType | None], list[str]] = {}
    merged: dict[tuple[State, str], bytes] = {}
    listed: dict[tuple[State, object, tuple[str, ...], tuple[object, ...]], DefaultsList] = {}
    _, list_defaults, merge = _PLAIN

    class Repository(CachingConfigRepository):
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

    def merge_once(loader: ConfigLoaderImpl, defaults: list[ResultDefault], repo: Any) -> DictConfig:
        key = (repo.state, "\n".join(map(repr, defaults)))
        if key not in merged:
            merged[key] = pickle.dumps(merge(loader, defaults, CachingConfigRepository(repo.delegate)))
        found: DictConfig = pickle.loads(merged[key])
        return found

    with _composing_with(Repository, list_once, merge_once):
        yield


@contextmanager
def reading_files() -> Iterator[None]:
    """Within `remembering_files`: as Hydra does it."""
    with _composing_with(*_PLAIN):
        yield


@contextmanager
def _composing_with(repository: type[CachingConfigRepository], list_defaults: Any, merge: Any) -> Iterator[None]:
    with (
        mock.patch.object(config_loader_impl, "CachingConfigRepository", repository),
        mock.patch.object(config_loader_impl, "create_defaults_list", list_defaults),
        mock.patch.object(ConfigLoaderImpl, "_compose_config_from_defaults_list", merge),
    ):
        yield


def state_of(sources: list[ConfigSource]) -> State:
    """Where the sources are, and what lies in them."""
    return tuple(
        (source.provider, source.scheme(), *(_files(source.path) if source.scheme() == "file" else (source.path,)))
        for source in sources
    )


def _files(folder: str) -> Iterator[tuple[object, ...]]:
    """Of conf/, which files lie there since when; of folders of a test, which come and go, what is in them."""
    is_ours = folder == _CONF
    for place, _, names in os.walk(folder):
        for name in names:
            if name.endswith((".yaml", ".yml")):
                path = Path(place, name)
                found = path.stat()
                content = (found.st_mtime_ns, found.st_size) if is_ours else path.read_bytes()
                yield os.path.relpath(path, folder), content
