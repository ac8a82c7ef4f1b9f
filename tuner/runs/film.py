"""The pictures of an episode."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import gymnasium
import numpy as np

from note_rl.environments import EnvFactory, flat_observations
from note_rl.types import Array
from tuner.errors import UserError

_DEFAULT_FPS = 30

Choose = Callable[[Array], Array]


def draws_pictures(environment: EnvFactory) -> bool:
    """Whether the environment can be filmed."""
    env = environment()
    env.close()
    return "rgb_array" in (env.metadata.get("render_modes") or ())


def film_episode(choose: Choose, environment: EnvFactory, seed: int, max_frames: int) -> tuple[list[Array], int]:
    """Plays one episode and keeps what it looks like.

    Args:
        choose: Actions [E] for observations [E, *obs].
        environment: What to play in.
        seed: Of the episode.
        max_frames: The film ends there.

    Returns:
        Frames [height, width, 3] uint8, and frames per second.

    Raises:
        UserError: The environment does not draw pictures after all.
    """
    env = _drawing(environment)
    frames: list[Array] = []
    try:
        obs, _ = env.reset(seed=seed)
        space = env.action_space
        start = int(space.start) if isinstance(space, gymnasium.spaces.Discrete) else 0  # agents count from 0
        ended = False
        while not ended and len(frames) < max_frames:
            frames.append(_frame(env, environment.id))
            action = choose(np.asarray(obs)[None])[0]
            obs, _, terminated, truncated, _ = env.step(action + start)
            ended = bool(truncated or np.all(terminated))
        if len(frames) < max_frames:
            frames.append(_frame(env, environment.id))
    finally:
        env.close()
    return frames, int(env.metadata.get("render_fps") or _DEFAULT_FPS)


def _drawing(environment: EnvFactory) -> gymnasium.Env[Any, Any]:
    return flat_observations(replace(environment, kwargs={**environment.kwargs, "render_mode": "rgb_array"})())


def _frame(env: gymnasium.Env[Any, Any], env_id: str) -> Array:
    frame = env.render()
    if not isinstance(frame, np.ndarray) or frame.ndim != 3:
        raise UserError(f"{env_id} draws no pictures (render_mode rgb_array); play it with gif=null")
    return frame
