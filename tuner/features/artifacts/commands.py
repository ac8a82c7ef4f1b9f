"""The part of `tuner dashboard` that shows files of studies (`artifacts=true`)."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from tuner.commands.features import InCommands

if TYPE_CHECKING:
    from omegaconf import DictConfig

    from tuner.study import StudyStore


def _files(config: "DictConfig", store: "StudyStore") -> Any:
    if not config.artifacts:
        return None
    return import_module("tuner.features.artifacts.winner_artifacts").of_all_studies(config, store)


PART = InCommands(files=_files)
