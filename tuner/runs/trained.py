"""Agents that runs have left behind, and how they act."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import numpy as np

from note_rl.adaptive.scheduled import ScheduledValues
from note_rl.collect.acting import PolicyRunner
from note_rl.environments.frames import FrameStack
from note_rl.policy import exploration
from note_rl.types import Array, BoolArray
from tuner.config.composing import RunConfig
from tuner.runs import folders as runs
from tuner.runs.build import BuiltRun, TrainableAgent, build_run
from tuner.runs.checkpoints import best_of, checkpoint_of
from tuner.trial.folder import BEST_FILE

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


class Exploring:
    """Acts as in training, at the end of its schedules.

    Args:
        agent: Of a run that is not trained any more.
        action_space: Of one environment.
        rng: Of exploration.
    """

    def __init__(self, agent: TrainableAgent, action_space: Any, rng: np.random.Generator) -> None:
        settings = agent.settings
        self._agent, self._action_space, self._rng = agent, action_space, rng
        self._policy = exploration(settings.policy, None, per_agent=settings.multi_agent)
        self._act = PolicyRunner(agent.learner, agent.obs_normaliser, settings.multi_agent)
        self._frames = FrameStack(settings.experience.frame_stack)
        self._is_bound = False

    def __call__(self, obs: Array, starts: BoolArray, action_mask: BoolArray | None = None) -> Array:
        """Actions [E] or [E, A]; see `note_rl.collect.evaluation.Greedy` for the arguments."""
        if not self._is_bound:
            self._bind(len(obs))
        self._policy.reset(np.flatnonzero(starts))
        answers = self._act(self._frames.show(obs, starts))
        if action_mask is not None:
            answers = self._policy.masked(answers, action_mask)
        return self._policy.for_env(self._policy.select(answers, self._rng))

    def _bind(self, num_envs: int) -> None:
        self._policy.bind(self._action_space, num_envs)
        ScheduledValues(self._agent.settings.schedules, self._policy, self._agent).move_to(1.0)
        if hasattr(self._policy, "num_random_steps"):
            self._policy.num_random_steps = 0  # these were at the beginning
        self._is_bound = True
