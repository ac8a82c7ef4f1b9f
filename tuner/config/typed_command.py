"""Command lines as they are stored and shown: `tuner tune --config-dir FOLDER OVERRIDE ...`."""

import re
import shlex
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from hydra.core.hydra_config import HydraConfig

from tuner.support.passwords import command_line

CONFIG_DIR: Final = "--config-dir"


@dataclass(frozen=True)
class TypedCommand:
    """The words typed behind the name of a command.

    Attributes:
        config_dir: The user's own folder of groups; None: there is none.
        overrides: The other words.
    """

    config_dir: str | None
    overrides: tuple[str, ...]

    @classmethod
    def read(cls, line: str) -> "TypedCommand":
        """The typed words of a stored command line; none of an empty one."""
        words = shlex.split(line)[2:]
        return cls(words[1], tuple(words[2:])) if words[:1] == [CONFIG_DIR] else cls(None, tuple(words))


def root_of(word: str) -> str:
    """The section or group of an override: `agent` of `+agent.gamma=0.9` and of `agent=dqn`."""
    return re.split(r"[.=@/]", word.lstrip("+~"))[0]


def typed_config_dir() -> Path | None:
    """The folder given with --config-dir, which Hydra has kept for itself."""
    if not HydraConfig.initialized():
        return None
    sources = HydraConfig.get().runtime.config_sources
    folders = [Path(str(source.path)) for source in sources if source.provider == "command-line"]
    return next(
        (folder.relative_to(Path.cwd()) if folder.is_relative_to(Path.cwd()) else folder for folder in folders), None
    )


def folder_words(config_dir: str | Path | None) -> tuple[str, ...]:
    """The words with which a folder of groups is given."""
    return () if config_dir is None else (CONFIG_DIR, str(config_dir))


def typed_line(command: str, overrides: Iterable[str], config_dir: str | Path | None) -> str:
    """The command line as it may be stored and shown, without passwords.

    Args:
        command: Such as tune.
        overrides: As typed.
        config_dir: The user's own folder of groups.
    """
    return command_line(["tuner", command, *folder_words(config_dir), *overrides])
