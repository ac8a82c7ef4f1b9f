"""Hydra's composition without reading and merging the same files again for every line."""

import copy
import pickle
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

from hydra._internal import config_loader_impl
from hydra._internal.config_loader_impl import ConfigLoaderImpl
from hydra._internal.config_repository import CachingConfigRepository
from hydra._internal.defaults_list import DefaultsList
from hydra.core.default_element import ResultDefault
from hydra.core.object_type import ObjectType
from hydra.core.override_parser.types import Override
from hydra.plugins.config_source import ConfigResult
from omegaconf import DictConfig


@contextmanager
def remembering_files() -> Iterator[None]:
    """For as long as the folders of configurations stay as they are: each file is read once, each choice merged once.

    What overrides do to the merged configuration is done anew for every line, by Hydra itself.
    """
    read: dict[str, ConfigResult | None] = {}
    options: dict[tuple[str, ObjectType | None], list[str]] = {}
    merged: dict[str, bytes] = {}
    listed: dict[tuple[str, tuple[str, ...]], DefaultsList] = {}
    list_defaults = config_loader_impl.create_defaults_list
    merge = ConfigLoaderImpl._compose_config_from_defaults_list

    class Repository(CachingConfigRepository):
        def __init__(self, delegate: Any) -> None:
            self.delegate = delegate
            self.cache = read

        def get_group_options(
            self, group_name: str, results_filter: ObjectType | None = ObjectType.CONFIG
        ) -> list[str]:
            if (group_name, results_filter) not in options:
                options[group_name, results_filter] = super().get_group_options(group_name, results_filter)
            return list(options[group_name, results_filter])

    def list_once(config_name: str, overrides_list: list[Override], repo: Any, **others: Any) -> DefaultsList:
        chosen = [one for one in overrides_list if repo.group_exists(one.key_or_group)]
        rest = [one for one in overrides_list if one not in chosen]
        key = (config_name, tuple(str(one.input_line) for one in chosen))
        if key not in listed:
            listed[key] = list_defaults(config_name=config_name, overrides_list=chosen, repo=repo, **others)
        found = copy.copy(listed[key])
        found.config_overrides = [*found.config_overrides, *rest]
        return found

    def merge_once(loader: ConfigLoaderImpl, defaults: list[ResultDefault], repo: Any) -> DictConfig:
        key = "\n".join(map(repr, defaults))
        if key not in merged:
            merged[key] = pickle.dumps(merge(loader, defaults, CachingConfigRepository(repo.delegate)))
        found: DictConfig = pickle.loads(merged[key])
        return found

    with (
        mock.patch.object(config_loader_impl, "CachingConfigRepository", Repository),
        mock.patch.object(config_loader_impl, "create_defaults_list", list_once),
        mock.patch.object(ConfigLoaderImpl, "_compose_config_from_defaults_list", merge_once),
    ):
        yield
