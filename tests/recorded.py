"""Recorded steps for tests: without Minari, and as a data set of it."""

import warnings
from collections.abc import Callable, Iterable
from typing import Any

import gymnasium
import numpy as np

from note_rl.examples.experts import recorded
from note_rl.settings import RecordedSteps


def pendulum_steps(num_episodes: int = 1) -> RecordedSteps:
    """Steps of somebody who never moves."""
    return recorded(lambda obs: np.zeros(1, np.float32), "Pendulum-v1", num_episodes)


def minari_dataset(name: str, env_id: str, choose: Callable[[Any], Any], stop_after: Iterable[int]) -> None:
    """Writes an episode for each number of steps after which somebody gives up, as Minari's own collector does.

    That collector itself needs JAX.
    """
    import minari
    from minari.data_collector.episode_buffer import EpisodeBuffer

    env = gymnasium.make(env_id)
    episodes = []
    for seed, most in enumerate(stop_after):
        seen, rows = [env.reset(seed=seed)[0]], []
        while len(rows) < most and not (rows and (rows[-1][2] or rows[-1][3])):
            action = choose(seen[-1])
            obs, reward, terminated, truncated, _ = env.step(action)
            seen.append(obs)
            rows.append((action, reward, terminated, truncated or (len(rows) + 1 == most and not terminated)))
        actions, rewards, terminations, truncations = map(list, zip(*rows, strict=True))
        observations: Any = {key: [one[key] for one in seen] for key in seen[0]} if isinstance(seen[0], dict) else seen
        episodes.append(EpisodeBuffer(seed, seed, None, observations, actions, rewards, terminations, truncations))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that nobody signs for it
        minari.create_dataset_from_buffers(name, episodes, env=env)
