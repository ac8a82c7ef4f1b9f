"""The names of Hydra that are no part of its interface, all of them in this file; written for Hydra 1.3.

Each part says what it needs and why Hydra offers no public way. `tests/tuner/config/test_hydra_internals.py` holds one
test for each name, which says what breaks without it.
"""

import argparse
import copy
import os
from importlib.util import find_spec, module_from_spec
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any, Final

from hydra._internal import config_loader_impl
from hydra._internal.config_loader_impl import ConfigLoaderImpl
from hydra._internal.config_repository import ConfigRepository, IConfigRepository
from hydra._internal.core_plugins.file_config_source import FileConfigSource
from hydra._internal.hydra import Hydra
from hydra._internal.utils import _run_hydra, create_config_search_path, get_args_parser
from hydra.core.config_loader import ConfigLoader
from hydra.core.config_search_path import ConfigSearchPath
from hydra.core.default_element import ResultDefault
from hydra.types import TaskFunction
from omegaconf import DictConfig, OmegaConf

__all__ = [
    "BASIC_LAUNCHER",
    "MODULES_OF_A_JOB",
    "FolderSource",
    "HydraLoader",
    "IConfigRepository",
    "arguments_parser",
    "create_defaults_list",
    "hydra_of",
    "run_as_main",
    "search_path_of",
]

BASIC_LAUNCHER: Final = "hydra._internal.core_plugins.basic_launcher.BasicLauncher"
"""The `_target_` of hydra/launcher=basic. An application may give the choice another name, but not the class."""

MODULES_OF_A_JOB: Final = ("hydra._internal.hydra", "hydra._internal.core_plugins.basic_launcher")
"""Modules that Hydra imports late, with the first job."""


def search_path_of(folder: Path) -> ConfigSearchPath:
    """Where choices are looked for: Hydra's own, the folder, and what plugins add.

    `hydra.initialize_config_dir` makes one, too, but as global state.
    """
    return create_config_search_path(str(folder))


def arguments_parser() -> argparse.ArgumentParser:
    """The parser of Hydra's command line. `hydra.main` keeps it to itself and reads `sys.argv`."""
    return get_args_parser()


def hydra_of(task_name: str, loader: ConfigLoader) -> Hydra:
    """The object that runs or shows a task with a loader of our own. `hydra.main` makes its own loader."""
    return Hydra(task_name=task_name, config_loader=loader)


def run_as_main(
    options: argparse.Namespace, parser: argparse.ArgumentParser, task: TaskFunction, folder: Path, config_name: str
) -> None:
    """Does what `hydra.main` does once it has read `sys.argv`, which it takes from nowhere else."""
    _run_hydra(options, parser, task, config_path=str(folder), config_name=config_name)


class FolderSource(FileConfigSource):
    """The files of a folder of groups, as Hydra reads them. Its public base class reads nothing."""

    def file_of(self, config_path: str) -> str:
        """The file that holds a choice."""
        return os.path.join(self.path, self._normalize_file_name(config_path))


class _Repository(ConfigRepository):
    """Sources, copied without the structured configs in them.

    Hydra copies the repository for every composition and every question what a group holds, to give the copy other
    sources. A deep copy of those that are there takes a fifth of a composition.
    """

    def __deepcopy__(self, memo: dict[int, Any]) -> "_Repository":
        del memo
        copied = copy.copy(self)
        copied.sources = list(self.sources)
        return copied


def _own_defaults_list() -> ModuleType:
    """A copy of Hydra's module of defaults lists that does not prepare what nothing refers to.

    For each file of a composition, Hydra 1.3 makes a config of all choices, and uses it only where a line refers to a
    choice. That is half of a composition. Hydra 1.4 makes none. The module that other programs use stays as it is.
    """
    spec = find_spec("hydra._internal.defaults_list")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    if not hasattr(module, "_create_interpolation_map"):
        return module
    all_choices, none = module._create_interpolation_map, OmegaConf.create()

    def choices_to_refer_to(overrides: Any, defaults_list: list[Any], self_added: bool) -> DictConfig:
        if not any(one.is_interpolation() for one in defaults_list):
            return none
        choices: DictConfig = all_choices(overrides, defaults_list, self_added)
        return choices

    setattr(module, "_create_interpolation_map", choices_to_refer_to)  # noqa: B010 - of our own copy
    return module


create_defaults_list = _own_defaults_list().create_defaults_list


class HydraLoader(ConfigLoaderImpl):
    """Hydra's loader, with a repository and a module of defaults lists of its own.

    `hydra.compose` makes its own loader, and only after `hydra.initialize` has set global state.
    """

    def __init__(self, config_search_path: ConfigSearchPath) -> None:
        super().__init__(config_search_path)
        self.repository = _Repository(config_search_path)

    def merged(self, defaults: list[ResultDefault], repository: IConfigRepository) -> DictConfig:
        """The configuration that is made of some files."""
        return super()._compose_config_from_defaults_list(defaults, repository)

    def _compose_config_from_defaults_list(self, defaults: list[ResultDefault], repo: IConfigRepository) -> DictConfig:
        return self.merged(defaults, repo)

    _load_configuration_impl = FunctionType(  # Hydra's method, with one other function to call
        ConfigLoaderImpl._load_configuration_impl.__code__,
        {**vars(config_loader_impl), "create_defaults_list": create_defaults_list},
        argdefs=ConfigLoaderImpl._load_configuration_impl.__defaults__,
    )
