"""Handing a policy on to programs that have neither this project nor the agent's framework."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np

from note_rl.collect.evaluation import Greedy
from note_rl.environments import Env, EnvLike, as_factory, as_the_space_has_it, flat_observations
from note_rl.environments.frames import FrameStack
from note_rl.environments.step_checks import Answers
from note_rl.errors import NoteRLError, SettingsError
from note_rl.learners.policy_function import ExportedPolicy, ExportFormat, check_format, check_same, greedy_rule
from note_rl.support.atomic_files import atomic_folder, atomic_target
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
            check_same(run(shown), (as_the_space_has_it(action, space), scores))
    except OSError as error:
        raise NoteRLError(f"cannot write {path}: {error.strerror or error}") from error
    return policy


def _some_observations(env: Env) -> Array:
    """Observations of an environment at the beginning and after random actions, [N, *obs]."""
    env.action_space.seed(0)
    answers = Answers(env)
    seen: list[Array] = []
    while len(seen) < _NUM_COMPARED:
        seen.append(np.array(answers.reset(len(seen))[0]))
        over = False
        while not over and len(seen) % (_NUM_COMPARED // 2):
            obs, _, terminated, truncated, _ = answers.step(env.action_space.sample())
            seen.append(np.array(obs))
            over = bool(terminated or truncated)
    return np.stack(seen)
