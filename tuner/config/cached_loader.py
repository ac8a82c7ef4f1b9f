"""Hydra's loader for a process that composes a dozen times: what it has read and merged before is not done again.

A study composes its configuration to check it, to run it, and to say what must be typed to train its winner. That was
half of what a short study took, most of it reading and merging the same files.

It knows one rule more than Hydra's: the network that an environment names wins over that of the agent. Hydra lets the
choice win that stands last in the defaults list, and there the agent does.
"""

import os
import pickle
import re
from collections.abc import Sequence
from dataclasses import dataclass

from hydra.core.config_search_path import ConfigSearchPath
from hydra.core.default_element import GroupDefault, ResultDefault
from hydra.plugins.config_source import ConfigResult
from hydra.types import RunMode
from omegaconf import DictConfig

from tuner.config.hydra_internals import FolderSource, HydraLoader, IConfigRepository

Version = tuple[str, int, int, int]
"""Path, time of change, size and number of a file: another one where any of what it says may have changed."""

_MOST_MERGED = 256
_read: dict[tuple[str, Version], bytes] = {}
_merged: dict[tuple[tuple[str, Version | None], ...], bytes] = {}


class ConfigLoader(HydraLoader):
    """Reads each file once as long as it does not change, and merges the same choices once."""

    def __init__(self, config_search_path: ConfigSearchPath) -> None:
        super().__init__(config_search_path)
        self.repository.sources = [
            _Files(source.provider, source.path) if source.scheme() == "file" else source
            for source in self.repository.sources
        ]

    def load_configuration(
        self,
        config_name: str | None,
        overrides: list[str],
        run_mode: RunMode,
        from_shell: bool = True,
        validate_sweep_overrides: bool = True,
    ) -> DictConfig:
        """Composes, once more where the environment is to decide about the network."""
        how = (run_mode, from_shell, validate_sweep_overrides)
        config = super().load_configuration(config_name, overrides, *how)
        network = self._network_of_env(config, overrides)
        if network is None:
            return config
        config = super().load_configuration(config_name, [*overrides, f"network={network}"], *how)
        config.hydra.overrides.task.pop()  # nobody has typed it
        return config

    def _network_of_env(self, config: DictConfig, overrides: Sequence[str]) -> str | None:
        """The network that the chosen environment names, unless it is chosen already, typed, or an experiment's.

        An agent without networks, as a function is, stays so.
        """
        choices = config.hydra.runtime.choices
        wanted = self._named_by("env", choices.get("env"), "network")
        if wanted in (None, choices.get("network")) or choices.get("network") is None:
            return None
        is_typed = any(re.match(r"\+*network[@=]", override) for override in overrides)
        of_experiment = self._named_by("experiment", choices.get("experiment"), "network")
        return None if is_typed or of_experiment is not None else wanted

    def _named_by(self, group: str, choice: object, other: str) -> str | None:
        """The choice of another group that a file has in its defaults list."""
        if not isinstance(choice, str) or not self.repository.config_exists(f"{group}/{choice}"):
            return None
        result = self.repository.load_config(f"{group}/{choice}")
        defaults = [one for one in (result.defaults_list or () if result else ()) if isinstance(one, GroupDefault)]
        named = [one.value for one in defaults if one.override and str(one.group).removeprefix("/") == other]
        return named[-1] if named and isinstance(named[-1], str) else None

    def merged(self, defaults: list[ResultDefault], repository: IConfigRepository) -> DictConfig:
        """The configuration that is made of some files; of the same files the one that was made before."""
        read = [(default, repository.load_config(str(default.config_path))) for default in defaults]
        if not all(_is_known(result) for _, result in read):
            return super().merged(defaults, repository)
        key = tuple((repr(default), getattr(result, "version", None)) for default, result in read)
        if key not in _merged:
            if len(_merged) >= _MOST_MERGED:
                _merged.clear()
            _merged[key] = pickle.dumps(super().merged(defaults, repository))
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
    """The content of a file, and its version."""

    version: Version | None = None


class _Files(FolderSource):
    def load_config(self, config_path: str) -> ConfigResult:
        file = os.path.abspath(self.file_of(config_path))
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
