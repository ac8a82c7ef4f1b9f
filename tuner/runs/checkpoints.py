"""Kept states of a run's agent: the last checkpoint, to go on from, and the weights of its best evaluation."""

import math
from pathlib import Path
from typing import Protocol

from note_rl.errors import CheckpointError
from note_rl.training.checkpoint import read_checkpoint
from note_rl.training.persistence import restore_param
from note_rl.types import Evaluation
from tuner.errors import UserError
from tuner.runs.adaptation_log import write_adaptation
from tuner.runs.build import BuiltRun, TrainableAgent
from tuner.runs.clock import TrainingClock
from tuner.support.interrupts import unbroken
from tuner.trial.folder import BEST_FILE, CHECKPOINT_FILE, CLOCK_FILE, INHERITED_FILE
from tuner.trial.messages import JsonDict


def best_of(folder: Path) -> Path:
    """The weights of a run's best evaluation.

    Raises:
        UserError: The run has none.
    """
    path = folder / BEST_FILE
    if not path.is_file():
        raise UserError(
            f"{folder} has no {BEST_FILE}: it was not evaluated yet, or trained with "
            "checkpoint.best=false; the last weights are there with weights=last"
        )
    return path


def checkpoint_of(folder: Path) -> Path:
    """The newest checkpoint of a run.

    Raises:
        UserError: The run has none yet.
    """
    path = folder / CHECKPOINT_FILE
    if not path.is_file():
        raise UserError(f"{folder} has no checkpoint yet; the first one is written at the first evaluation")
    return path


class EpisodeLog(Protocol):
    """A recorder of the training episodes of a run."""

    def add_episode(self, reward: float, step: int, at: float | None = None) -> None:
        """An episode has ended, with this return, after a number of environment steps, at this time.perf_counter()."""

    def write(self) -> None:
        """A checkpoint is about to be written: what comes before it will not be reported again."""


class Checkpoint:
    """The checkpoint of a run: the newest has the plain name, kept older ones are named by their environment steps.

    Attributes:
        clock: Of the training until now.
    """

    def __init__(self, run: BuiltRun, path: Path, episodes: EpisodeLog | None = None) -> None:
        self._agent = run.agent
        self._settings = run.config.checkpoint
        self._seed = run.config.seed
        self._path = path
        self._episodes = episodes
        self._total_steps = run.config.training.total_steps
        self.clock = TrainingClock(path.with_name(CLOCK_FILE))

    @property
    def folder(self) -> Path:
        """Where it is."""
        return self._path.parent

    def move(self, folder: Path) -> None:
        """Goes on in another folder, which has a copy of what was written last."""
        self._path = folder / self._path.name
        self.clock.move(self._path.with_name(CLOCK_FILE))
        self._keep_older()

    def restore(self) -> bool:
        """Takes over what an earlier attempt left, else what the run inherits; whether there was anything."""
        found = self._restore_own() or self._inherit()
        if found:
            self.clock.restore(self._agent.num_env_steps, self._agent.num_env_steps / self._total_steps)
        return found

    def _restore_own(self) -> bool:
        if not self._path.exists():
            return False
        self._agent.restore(self._path)
        self._keep_older()  # it may have been killed before it could
        return True

    def _inherit(self) -> bool:
        inherited = self._path.with_name(INHERITED_FILE)
        if not inherited.exists():
            return False
        self._agent.restore(inherited, reseed=self._seed)
        return True

    def write(self) -> None:
        """Replaces the newest checkpoint in one move, once all that belongs to it is written.

        A run that is killed in between passes these steps again; what is written behind a checkpoint would be lost.
        """
        with unbroken():
            if self._episodes is not None:
                self._episodes.write()
            write_adaptation(self._agent, self._path.parent)
            self.clock.write(self._agent.num_env_steps)
            self._agent.save(self._path, save_data=self._settings.save_replay)
            self._keep_older()

    def _keep_older(self) -> None:
        if self._settings.keep <= 1:
            return
        stem, suffix = self._path.stem, self._path.suffix
        copy = self._path.with_name(f"{stem}_{self._agent.num_env_steps:012d}{suffix}")
        copy.unlink(missing_ok=True)
        copy.hardlink_to(self._path)  # the next write puts a new file under the plain name and leaves this one alone
        for old in sorted(self._path.parent.glob(f"{stem}_*{suffix}"))[: -self._settings.keep]:
            old.unlink()


class BestWeights:
    """The weights of a run's best evaluation, with what that was: on the same seeds they score the same again.

    Args:
        run: Whose agent it is.
        path: Of the file, which an earlier attempt may have left.
    """

    def __init__(self, run: BuiltRun, path: Path) -> None:
        self._agent = run.agent
        self._path = path
        self._wanted = run.config.checkpoint.best
        self._best = float(about_best(path)["mean_return"]) if self._wanted and path.exists() else -math.inf

    def move(self, path: Path) -> None:
        """Goes on with another file, a copy."""
        self._path = path

    def offer(self, evaluation: Evaluation, seed: int) -> None:
        """Writes the agent's weights, if they were never evaluated better; seed: of the evaluation."""
        if not (self._wanted and evaluation.mean > self._best):
            return
        about = {
            "mean_return": evaluation.mean,
            "num_env_steps": self._agent.num_env_steps,
            "num_episodes": len(evaluation.returns),
            "seed": seed,
        }
        self._agent.save_param(self._path, about)
        self._best = evaluation.mean


def about_best(path: Path) -> JsonDict:
    """The evaluation that made a file of best weights the best: mean_return, num_env_steps, seed ...

    Raises:
        UserError: It is no such file.
        note_rl.errors.CheckpointError: It is damaged.
    """
    about = read_checkpoint(path)[1].get("about")
    if not isinstance(about, dict) or not all(isinstance(about.get(name), int | float) for name in _ABOUT):
        raise UserError(f"{path} does not say by which evaluation it is the best: remove it, or use weights=last")
    return about


_ABOUT = ("mean_return", "num_env_steps", "num_episodes", "seed")


def weights_file(init: str) -> Path:
    """The file that `init` names.

    Args:
        init: A checkpoint file, or the folder of a run or trial, which stands for its last checkpoint.

    Raises:
        UserError: There is no such file.
    """
    place = Path(init)
    if place.is_dir():
        return checkpoint_of(place)
    if not place.is_file():
        raise UserError(f"init={init}: there is no such folder of a run, and no such checkpoint file")
    return place


def check_weights(init: str) -> None:
    """Refuses what holds no weights. Reads arrays, and runs nothing that the file or its folder names.

    Raises:
        UserError: It cannot be read, or is of another kind.
    """
    try:
        found = restore_param(weights_file(init))
    except CheckpointError as error:
        raise UserError(f"init={init}: {error}") from error
    if not found:
        raise UserError(f"init={init}: the file is of another kind: it holds no parameters of an agent")


def take_weights(agent: TrainableAgent, init: str) -> None:
    """Gives a new agent parameters, targets and how its inputs are normalised; counts and optimizer stay new.

    Raises:
        UserError: The file cannot be read, or is of another agent; names the first array that differs.
    """
    try:
        agent.restore_param(weights_file(init))
    except CheckpointError as error:
        raise UserError(f"init={init}: {error}; take the agent, env and network of the run that it is of") from error
