"""Recorded steps as one of our environments would have shown them; the only place that reads Minari's data sets."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.vector.utils import batch_space, iterate

from note_rl.environments import Env, EnvLike, as_factory, flat_observations
from note_rl.environments.in_process import WithSpaces
from note_rl.environments.observations import ObservationReader, name_of
from note_rl.errors import EnvironmentMismatchError, SettingsError
from note_rl.settings.recordings import RecordedSteps
from note_rl.settings.switch_names import DATASET
from note_rl.support.near_names import nearest
from note_rl.types import Array

_DATA = Path("data", "metadata.json")  # in the folder of a data set
_MOST_LISTED = 5


def check_dataset(dataset: RecordedSteps | str, env: EnvLike) -> None:
    """Refuses recorded steps that were not taken in an environment like this one; reads no more than it has to.

    Args:
        dataset: The steps, or the id of a data set of Minari's.
        env: Where the agent acts.

    Raises:
        SettingsError: Minari is not installed, or there is no such data set, or it cannot be read.
        EnvironmentMismatchError: Observations or actions are others.
    """
    made = as_factory(env)()
    try:
        if isinstance(dataset, RecordedSteps):
            _check_recording(dataset, flat_observations(made))
        else:
            _check_spaces(dataset, _opened(dataset), made)
    finally:
        made.close()


def read_dataset(dataset: RecordedSteps | str, env: EnvLike) -> RecordedSteps:
    """The steps of a data set, in the order in which they were taken; see `check_dataset`."""
    check_dataset(dataset, env)
    if isinstance(dataset, RecordedSteps):
        return dataset
    made = as_factory(env)()
    try:
        episodes = list(_episodes(dataset, made))
    finally:
        made.close()
    if not episodes:
        raise SettingsError(f"the data set {dataset} holds no episodes: choose another one")
    return RecordedSteps(*(np.concatenate(columns) for columns in zip(*episodes, strict=True)))


def _episodes(name: str, env: Env) -> Iterator[tuple[Array, ...]]:
    """The columns of a `RecordedSteps`, one episode after the other."""
    flat = flat_observations(env)
    space = env.action_space
    first_action = space.start if isinstance(space, spaces.Discrete | spaces.MultiDiscrete) else 0
    for episode in _opened(name).iterate_episodes():
        seen = _observations(episode.observations, len(episode.rewards) + 1, flat, env)
        action = np.asarray(episode.actions) - first_action
        if isinstance(env.action_space, spaces.Box):
            action = action.reshape(len(action), -1).astype(np.float32)
        terminated = np.asarray(episode.terminations, np.bool_)
        ended = terminated | np.asarray(episode.truncations, np.bool_)
        ended[-1:] = True  # nothing is known of what came behind it
        yield seen[:-1], action, np.asarray(episode.rewards, np.float32), seen[1:], terminated, ended


def _observations(observations: Any, num: int, flat: Env, env: Env) -> Array:
    """The observations as the agent would have seen them, [T + 1, *obs]."""
    if flat is env:
        assert isinstance(env.observation_space, spaces.Box)
        return ObservationReader(name_of(env), env.observation_space).several(observations, num, "the data set")
    assert isinstance(flat, gymnasium.ObservationWrapper)
    parts = iterate(batch_space(env.observation_space, num), observations)
    return np.stack([flat.observation(part) for part in parts])


def _opened(name: str) -> Any:
    """A MinariDataset. Its spaces must stand in it: Minari would make the environment that it names, to learn them."""
    try:
        import minari
    except ModuleNotFoundError as error:
        raise SettingsError(f"{{}} needs Minari, which is not installed: {_EXTRA}", DATASET.at(name)) from error
    path = _home() / name / _DATA
    if not path.is_file():
        raise SettingsError(_unknown(name))
    try:
        lacking = {"observation_space", "action_space"} - set(json.loads(path.read_text(encoding="utf-8")))
        if lacking:
            raise ValueError(f"it does not say what its {sorted(lacking)[0]} is")
        return minari.MinariDataset(path.parent)
    except ImportError as error:
        raise SettingsError("{}: {}; {}", DATASET.at(name), error, _EXTRA) from error
    except (OSError, ValueError, KeyError, AssertionError) as error:
        raise SettingsError(f"the data set {name} cannot be read ({error}); fetch or make it anew") from error


_EXTRA = "pip install 'note-rl[offline]'"


def _home() -> Path:
    """Where Minari keeps data sets."""
    return Path(os.environ.get("MINARI_DATASETS_PATH") or Path.home() / ".minari" / "datasets")


def _unknown(name: str) -> str:
    home = _home()
    there = sorted(path.relative_to(home).parent.parent.as_posix() for path in home.glob(f"**/{_DATA}"))
    near = nearest(name, there)
    if near:
        told = f"did you mean {near[0]}?"
    elif there:
        told = f"there is {', '.join(there[:_MOST_LISTED])}" + " and more" * (len(there) > _MOST_LISTED) + "."
    else:
        told = "there is none yet."
    return f"there is no data set {name} in {home}: {told} `minari download {name}` fetches one that is published"


def _check_spaces(name: str, dataset: Any, env: Env) -> None:
    own = (env.observation_space, env.action_space)
    theirs = (dataset.observation_space, dataset.action_space)
    for what, one, other in zip(("observations", "actions"), theirs, own, strict=True):
        if not _alike(one, other, bounds=what == "actions"):
            made_in = getattr(dataset.env_spec, "id", None)
            remedy = f"choose env.id={made_in}, or another data set" if made_in else "choose another data set"
            raise EnvironmentMismatchError(
                f"the data set {name} has the {what} {one}, and the environment {other}: {remedy}"
            )


def _alike(one: Any, other: Any, bounds: bool) -> bool:
    """Whether values of one space are values of another; bounds of observations often differ."""
    if isinstance(one, spaces.Dict) and isinstance(other, spaces.Dict):
        same_keys = set(one.spaces) == set(other.spaces)
        return same_keys and all(_alike(one[key], other[key], bounds) for key in one.spaces)
    if isinstance(one, spaces.Tuple) and isinstance(other, spaces.Tuple):
        pairs = zip(one.spaces, other.spaces, strict=False)
        return len(one) == len(other) and all(_alike(*pair, bounds) for pair in pairs)
    if isinstance(one, spaces.Box) and isinstance(other, spaces.Box):
        same_bounds = not bounds or (np.allclose(one.low, other.low) and np.allclose(one.high, other.high))
        return one.shape == other.shape and one.dtype.kind == other.dtype.kind and same_bounds
    return bool(one == other)


def _check_recording(recording: RecordedSteps, env: Env) -> None:
    check_steps("the recorded steps have", recording.obs, recording.action, env)
    if recording.next_obs.shape != recording.obs.shape:
        raise EnvironmentMismatchError(
            f"the recorded steps have observations {list(recording.obs.shape[1:])}, and then "
            f"{list(recording.next_obs.shape[1:])}: both must be alike"
        )


def check_steps(what: str, obs: Array | None, action: Array, env: WithSpaces) -> None:
    """Refuses observations and actions that cannot be those of an environment.

    Args:
        what: Begins the message, "the recorded steps have".
        obs: [N, *obs]; None: they are not compared.
        action: [N, ...], those that choose counted from 0.
        env: The environment, with one array as observation.

    Raises:
        EnvironmentMismatchError: Naming both.
    """
    space, shown = env.action_space, env.observation_space.shape
    if obs is not None and obs.shape[1:] != shown:
        raise EnvironmentMismatchError(
            f"{what} observations {list(obs.shape[1:])}, and the environment {list(shown or ())}: choose the "
            "environment in which they were taken"
        )
    if isinstance(space, spaces.Box):
        fits, counted = action.ndim == 2 and action.shape[1] == int(np.prod(space.shape)), ""
    else:
        numbers = _num_choices(space)
        counted = f"; they go from {action.min():g} to {action.max():g}, and are to be counted from 0"
        fits = numbers is None or (
            action.shape[1:] == numbers.shape
            and action.dtype.kind in "iufb"
            and bool(((action >= 0) & (action < numbers) & (action == np.floor(action))).all())
        )
    if not fits:
        raise EnvironmentMismatchError(
            f"{what} actions {list(action.shape[1:])} ({action.dtype}), and the environment {space}{counted}: choose "
            "the environment in which they were taken"
        )


def _num_choices(space: spaces.Space[Any]) -> Array | None:
    """How many choices there are, [] or [k]; None: of another space."""
    if isinstance(space, spaces.Discrete):
        return np.asarray(space.n)
    if isinstance(space, spaces.MultiDiscrete) and space.nvec.ndim == 1:
        return np.asarray(space.nvec)
    return np.full(space.shape, 2) if isinstance(space, spaces.MultiBinary) else None
