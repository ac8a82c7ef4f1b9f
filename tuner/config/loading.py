"""Hydra's loader for a process that composes a dozen times: what it has read and merged before is not done again.

A study composes its configuration to check it, to run it, and to say what must be typed to train its winner. That was
half of what a short study took, most of it reading and merging the same files.
"""

import os
import pickle
from dataclasses import dataclass

from hydra._internal.config_loader_impl import ConfigLoaderImpl
from hydra._internal.config_repository import IConfigRepository
from hydra._internal.core_plugins.file_config_source import FileConfigSource
from hydra.core.config_search_path import ConfigSearchPath
from hydra.core.default_element import ResultDefault
from hydra.plugins.config_source import ConfigResult
from omegaconf import DictConfig

Version = tuple[str, int, int, int]
"""Path, time of change, size and number of a file: another one where any of what it says may have changed."""

_MOST_MERGED = 256
_read: dict[tuple[str, Version], bytes] = {}
_merged: dict[tuple[tuple[str, Version | None], ...], bytes] = {}


class ConfigLoader(ConfigLoaderImpl):
    """Reads each file once as long as it does not change, and merges the same choices once. It composes the same."""

    def __init__(self, config_search_path: ConfigSearchPath) -> None:
        super().__init__(config_search_path)
        self.repository.sources = [
            _Files(source.provider, source.path) if source.scheme() == "file" else source
            for source in self.repository.sources
        ]

    def _compose_config_from_defaults_list(self, defaults: list[ResultDefault], repo: IConfigRepository) -> DictConfig:
        read = [(default, repo.load_config(str(default.config_path))) for default in defaults]
        if not all(_is_known(result) for _, result in read):
            return super()._compose_config_from_defaults_list(defaults, repo)
        key = tuple((repr(default), getattr(result, "version", None)) for default, result in read)
        if key not in _merged:
            if len(_merged) >= _MOST_MERGED:
                _merged.clear()
            _merged[key] = pickle.dumps(super()._compose_config_from_defaults_list(defaults, repo))
        found: DictConfig = pickle.loads(_merged[key])
        return found


def _is_known(result: ConfigResult | None) -> bool:
    """Whether its version tells what is in it, or it comes with Hydra.

    That is not so of a folder that an override adds, which has sources of its own, and of what a program stores in
    Hydra's `ConfigStore`.
    """
    return isinstance(result, _Result) or (result is not None and result.provider == "hydra")


@dataclass
class _Result(ConfigResult):
    """What a file says, and which file it was."""

    version: Version | None = None


class _Files(FileConfigSource):
    def load_config(self, config_path: str) -> ConfigResult:
        file = os.path.realpath(os.path.join(self.path, self._normalize_file_name(config_path)))
        try:
            status = os.stat(file)
        except OSError:
            return super().load_config(config_path)  # which says that it is not there
        version = (file, status.st_mtime_ns, status.st_size, status.st_ino)
        key = (self.provider, version)
        if key not in _read:
            _read[key] = pickle.dumps(_Result(**vars(super().load_config(config_path)), version=version))
        found: ConfigResult = pickle.loads(_read[key])  # what is merged is changed by it
        return found
