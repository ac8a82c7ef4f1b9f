"""The study that several environments make together."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tuner.commands.features import InCommands

if TYPE_CHECKING:
    from omegaconf import DictConfig

    from tuner.study import StudyDefinition


def _defined(config: "DictConfig", overrides: Sequence[str], config_dir: str | Path | None) -> "StudyDefinition | None":
    if config.study.environments is None:
        return None
    from tuner.features.environments.joint_study import define_in_all

    return define_in_all(config, overrides, config_dir)


PART = InCommands(defined=_defined)
