"""Agents that runs have left behind."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from tuner.config.composition import RunConfig
from tuner.runs import run_folders as runs
from tuner.runs.build import BuiltRun, build_run
from tuner.runs.checkpoints import best_of, checkpoint_of
from tuner.trial.folder import BEST_FILE

__all__ = ["BEST", "LAST", "folder_of", "load_run", "weights_of"]

LAST: Final = "last"
BEST: Final = "best"


def weights_of(place: Path, weights: str = LAST) -> Path:
    """The file with the weights of a run.

    Args:
        place: Folder of the run, or one of the checkpoint files in it.
        weights: `LAST` or `BEST`, of a folder.

    Raises:
        UserError: There are none.
    """
    if place.is_file():
        return place
    return best_of(place) if weights == BEST else checkpoint_of(place)


def folder_of(place: Path) -> Path:
    """The folder of the run that a folder or a checkpoint file is of."""
    return place.parent if place.is_file() else place


def load_run(place: Path, trust: Sequence[str] = (), weights: str = LAST) -> BuiltRun:
    """A trained run with its agent as it was at the newest checkpoint, or with the weights of its best evaluation.

    Args:
        place: Folder of the run, or a checkpoint file in it; it may come from anybody.
        trust: Modules outside of `tuner` that it may name, see `tuner.config.trust`.
        weights: `LAST` or `BEST`.

    Raises:
        UserError: No run is in that folder, it has no checkpoint yet, or it names code that nobody has vouched for.
        note_rl.errors.CheckpointError: The checkpoint is damaged.
    """
    config = RunConfig.from_json(runs.read_run(folder_of(place), trust))
    path = weights_of(place, weights)
    built = build_run(replace(config, backend=replace(config.backend, device="cpu")))
    if path.name == BEST_FILE:
        built.agent.restore_param(path)
    else:
        built.agent.restore(path)
    return built
