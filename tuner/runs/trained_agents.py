"""Agents that runs have left behind."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final, Protocol

from note_rl.environments import EnvFactory
from note_rl.training.film import FilmFile
from note_rl.types import Array
from tuner.config.composition import RunConfig
from tuner.runs import run_folders as runs
from tuner.runs.build import BuiltRun, build_run
from tuner.runs.checkpoints import best_of, checkpoint_of
from tuner.trial.folder import BEST_FILE

__all__ = ["BEST", "LAST", "TrainedPolicy", "folder_of", "load_run", "weights_of"]

LAST: Final = "last"
BEST: Final = "best"


class TrainedPolicy(Protocol):
    """The policy that a run of a function has left behind, which can be played.

    Attributes:
        environment: That it was trained in.
        num_env_steps: Steps of training.
    """

    environment: EnvFactory
    num_env_steps: int

    def returns(self, num_episodes: int, seed: int, explores: bool) -> Array:
        """Returns [num_episodes] of episodes."""

    def film(self, max_steps: int, files: Sequence[FilmFile] | None, seed: int, explores: bool) -> float:
        """Plays one episode, in a window or into files; returns its return."""


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
