"""Handing a policy on to programs that have neither this project nor the agent's framework."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
from gymnasium import spaces

from note_rl.collect.evaluation import Greedy
from note_rl.environments import Env, EnvLike, as_factory, flat_observations
from note_rl.environments.frames import FrameStack
from note_rl.environments.in_process import as_stored
from note_rl.errors import NoteRLError, SettingsError
from note_rl.learners.exporting import ExportedPolicy, ExportFormat, check_format, check_same, greedy_rule
from note_rl.support.files import atomic_folder, atomic_target
from note_rl.types import Array

_NUM_COMPARED: Final = 16  # observations
_FOLDER: Final = "saved_model"
_IN_FOLDERS: Final = "saved_model.pb"


def export_policy(
    agent: Any, env: EnvLike, path: Path, file_format: ExportFormat, about: Mapping[str, str]
) -> ExportedPolicy:
    """Writes the policy of an agent alone; see `Agent.export`.

    Args:
        agent: Whose policy it is.
        env: Where it acts.
        path: Of the file or folder.
        file_format: In which it is written.
        about: Kept with it.
    """
    check_format(file_format, agent.framework)
    if file_format == _FOLDER and path.exists() and not (path / _IN_FOLDERS).is_file():
        raise SettingsError(f"{path} is there already and no SavedModel: choose another name")
    made = flat_observations(as_factory(env)())
    try:
        space, obs = made.action_space, _some_observations(made)
    finally:
        made.close()
    greedy: Greedy = agent.greedy_in(space)
    starts = np.ones(len(obs), np.bool_)
    shown = FrameStack(greedy.frame_stack).show(obs, starts)
    action, scores = greedy(obs, starts), agent.learner.act(agent.obs_normaliser(shown))
    policy = ExportedPolicy(
        obs_shape=shown.shape[1:],
        obs_dtype=shown.dtype.name,
        scores_shape=scores.shape[1:],
        rule=greedy_rule(greedy.policy, space),
        normaliser=agent.obs_normaliser,
        about={"agent": type(agent).__name__, "framework": agent.framework, **about},
    )
    try:
        with (atomic_folder if file_format == _FOLDER else atomic_target)(path) as aside:
            run = agent.learner.export(policy, aside, file_format)
            check_same(run(shown), (_as_taken(action, space), scores))
    except OSError as error:
        raise NoteRLError(f"cannot write {path}: {error.strerror or error}") from error
    return policy


def _some_observations(env: Env) -> Array:
    """What an environment shows at the beginning and after random actions, [N, *obs]."""
    env.action_space.seed(0)
    seen: list[Any] = []
    while len(seen) < _NUM_COMPARED:
        seen.append(env.reset(seed=len(seen))[0])
        over = False
        while not over and len(seen) % (_NUM_COMPARED // 2):
            obs, _, terminated, truncated, _ = env.step(env.action_space.sample())
            seen.append(obs)
            over = bool(terminated or truncated)
    return np.stack([as_stored(obs) for obs in seen])


def _as_taken(action: Array, action_space: Any) -> Array:
    """Actions as environments take them."""
    if isinstance(action_space, spaces.Discrete):
        return action + int(action_space.start)
    return action.reshape(len(action), *(action_space.shape or ()))
