"""Handing a policy on to programs that have neither this project nor the agent's framework."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np

from note_rl.collect.evaluation import Greedy
from note_rl.environments import Env, EnvLike, as_factory, as_the_space_has_it, flat_observations
from note_rl.environments.action_masks import mask_reader
from note_rl.environments.frames import FrameStack
from note_rl.environments.step_checks import Answers
from note_rl.errors import NoteRLError, SettingsError
from note_rl.learners.declarations import is_recurrent, state_read_by
from note_rl.learners.policy_function import (
    ACTION,
    INPUT,
    SCORES,
    ExportedPolicy,
    ExportFormat,
    behind,
    check_format,
    check_names,
    check_same,
    check_search,
    greedy_rule,
)
from note_rl.learners.recurrence import RecurrentState, initial_state_of, packed
from note_rl.support.atomic_files import atomic_folder, atomic_target
from note_rl.types import EPISODE_START, Array

MASKS: Final = "action_mask"
_ABOUT_MASKS: Final = "the file does not take one; choose the action with the highest score among the allowed ones"
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
    check_search(type(agent))
    check_format(file_format, agent.framework)
    if file_format == _FOLDER and path.exists() and not (path / _IN_FOLDERS).is_file():
        raise SettingsError(f"{path} is there already and no SavedModel: choose another name")
    made = flat_observations(as_factory(env)())
    try:
        space, (obs, has_masks) = made.action_space, _some_observations(made)
    finally:
        made.close()
    greedy: Greedy = agent.greedy_in(space)
    rule = greedy_rule(greedy.policy, space)
    kept = _kept(agent)
    calls = _calls(agent, greedy, space, obs, kept)
    shown, scores = calls[0][0][INPUT], calls[0][1][SCORES]
    policy = ExportedPolicy(
        obs_shape=shown.shape[1:],
        obs_dtype=shown.dtype.name,
        scores_shape=scores.shape[1:],
        rule=rule,
        normaliser=agent.obs_normaliser,
        about={
            "agent": type(agent).__name__,
            "framework": agent.framework,
            **_about_state(kept),
            **({MASKS: _ABOUT_MASKS} if has_masks else {}),
            **about,
        },
        state=kept,
    )
    check_names(agent, policy)
    try:
        with (atomic_folder if file_format == _FOLDER else atomic_target)(path) as aside:
            run = agent.learner.export(policy, aside, file_format)
            for inputs, expected in calls:
                check_same(run(inputs), expected)
    except OSError as error:
        raise NoteRLError(f"cannot write {path}: {error.strerror or error}") from error
    return policy


def _kept(agent: Any) -> dict[str, Array]:
    """The part of the state of a recurrent agent that action() reads: by name, how episodes begin, [...] each."""
    if not is_recurrent(agent):
        return {}
    state = initial_state_of(agent, 1)
    return {name: np.array(state[name][0]) for name in state_read_by(agent, "action")}


def _about_state(kept: Mapping[str, Array]) -> dict[str, str]:
    """How the policy of a recurrent agent is called from step to step."""
    if not kept:
        return {}
    before, after = ", ".join(kept), ", ".join(map(behind, kept))
    return {"state": f"{before} of a call is {after} of the last one; any numbers where episode_start is true"}


def _calls(
    agent: Any, greedy: Greedy, space: Any, obs: Array, kept: Mapping[str, Array]
) -> list[tuple[dict[str, Array], dict[str, Array]]]:
    """Inputs of an exported policy, and the outputs that the agent gives; where it has a state, of two calls in a row.

    All episodes begin with the first call, every other one anew with the second.
    """
    frames, state = FrameStack(greedy.frame_stack), RecurrentState()
    calls: list[tuple[dict[str, Array], dict[str, Array]]] = []
    before = {name: np.ones((len(obs), first.size), np.float32) for name, first in kept.items()}
    for every in (1, 2) if kept else (1,):
        starts = np.arange(len(obs)) % every == 0
        shown = frames.show(obs, starts)
        action, scores = greedy(obs, starts), agent.learner.act(agent.obs_normaliser(shown), state, starts)
        after = {name: packed({name: state.arrays[name]}) for name in kept} if state.arrays is not None else {}
        inputs = {INPUT: shown, **before, **({EPISODE_START: starts} if kept else {})}
        expected = {ACTION: as_the_space_has_it(action, space), SCORES: scores}
        calls.append((inputs, expected | {behind(name): rows for name, rows in after.items()}))
        before = after
    return calls


def _some_observations(env: Env) -> tuple[Array, bool]:
    """Observations of an environment at the beginning and after random actions, [N, *obs], and if it has masks."""
    env.action_space.seed(0)
    answers = Answers(env)
    seen: list[Array] = []
    while len(seen) < _NUM_COMPARED:
        first, info = answers.reset(len(seen))
        seen.append(np.array(first))
        read = mask_reader(env, info)
        over = False
        while not over and len(seen) % (_NUM_COMPARED // 2):
            allowed = None if read is None else read(info)
            mask = () if allowed is None else (np.asarray(allowed, np.int8),)
            obs, _, terminated, truncated, info = answers.step(env.action_space.sample(*mask))
            seen.append(np.array(obs))
            over = bool(terminated or truncated)
    return np.stack(seen), read is not None
