"""Experts to learn from: demonstrations of any function that acts, and of a controller that balances CartPole."""

from collections.abc import Callable
from typing import Any

import numpy as np
from gymnasium import spaces

from note_rl.environments import EnvLike, as_factory, flat_observations
from note_rl.settings.demonstrations import Demonstrations
from note_rl.settings.recordings import RecordedSteps
from note_rl.types import Array


def recorded(
    choose: Callable[[Array], int | Array], env: EnvLike, num_episodes: int = 10, seed: int = 0
) -> RecordedSteps:
    """The steps of an expert in fresh environments.

    Args:
        choose: The expert: action for one observation [*obs].
        env: What to play in; a copy is made.
        num_episodes: Whole episodes.
        seed: Of the first episode; each further one has the next.

    Raises:
        NoteRLError: The environment cannot be made.
    """
    played = flat_observations(as_factory(env)())
    rows: list[tuple[Array, int | Array, float, Array, bool, bool]] = []
    try:
        for episode in range(num_episodes):
            obs, _ = played.reset(seed=seed + episode)
            over = False
            while not over:
                seen = np.asarray(obs)
                action = choose(seen)
                obs, reward, terminated, truncated, _ = played.step(action)
                over = terminated or truncated
                stored = _counted(action, played.action_space)
                rows.append((seen, stored, float(reward), np.asarray(obs), bool(terminated), over))
    finally:
        played.close()
    columns = [np.asarray(column) for column in zip(*rows, strict=True)]
    return RecordedSteps(*columns)


def _counted(action: Any, space: spaces.Space[Any]) -> Array:
    """An action as it is stored: numbers in a row, or choices counted from 0."""
    if isinstance(space, spaces.Box):
        return np.asarray(action, np.float32).reshape(-1)
    first = space.start if isinstance(space, spaces.Discrete | spaces.MultiDiscrete) else 0
    return np.asarray(action - first, np.int32)


def record(
    choose: Callable[[Array], int | Array], env: EnvLike, num_episodes: int = 10, seed: int = 0
) -> Demonstrations:
    """Observations and actions of an expert in fresh environments; see `recorded`."""
    steps = recorded(choose, env, num_episodes, seed)
    return Demonstrations(steps.obs, steps.action)


def cartpole_expert(num_episodes: int = 10, seed: int = 0) -> Demonstrations:
    """Demonstrations on CartPole-v1 of a linear controller that reaches 500, the most possible.

    It pushes towards the side that the pole leans and falls to, and a little back to the middle of the track.
    """
    return record(_balancing, "CartPole-v1", num_episodes, seed)


def cartpole_recording(num_episodes: int = 10, seed: int = 0) -> RecordedSteps:
    """Whole steps of the expert of `cartpole_expert`."""
    return recorded(_balancing, "CartPole-v1", num_episodes, seed)


def _balancing(obs: Array) -> int:
    weights = np.array([0.1, 0.3, 1.0, 0.5])  # of position, velocity, angle, angular velocity
    return int(weights @ obs > 0)
