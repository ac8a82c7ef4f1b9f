"""Steps with known content, and a naive reading of them: one list of transitions per environment."""

from dataclasses import replace

import numpy as np

from note_rl.replay.buffer import ReplayBuffer
from note_rl.types import STEP_COLUMNS, Steps


def steps(first, num_steps, num_envs=1, ended=()):
    """Steps whose reward is their number, counted over time and environments; obs = number, next_obs = number + 0.5."""
    number = np.arange(first, first + num_steps * num_envs, dtype=np.float32).reshape(num_steps, num_envs)
    over = np.isin(number, ended)
    obs = number[..., None]
    return Steps(obs, number.astype(np.int64), number, obs + 0.5, over, over)


def random_story(rng, num_steps, num_envs, end_probability=0.15):
    """Steps with random rewards and ends, half of the latter by a time limit; obs is (number, anything)."""
    number = np.arange(num_steps * num_envs, dtype=np.float32).reshape(num_steps, num_envs)
    ended = rng.random(number.shape) < end_probability
    terminated = ended & (rng.random(number.shape) < 0.5)
    return Steps(
        obs=np.stack([number, rng.normal(size=number.shape)], axis=-1).astype(np.float32),
        action=number.astype(np.int64),
        reward=rng.normal(size=number.shape).astype(np.float32),
        next_obs=np.stack([number + 0.5, rng.normal(size=number.shape)], axis=-1).astype(np.float32),
        terminated=terminated,
        ended=ended,
        extras={"achieved_goal": rng.integers(0, 9, (*number.shape, 2)).astype(np.float32)},
    )


def part(story, first, last):
    """Steps first to last-1 of a story."""
    return replace(
        story,
        **{name: getattr(story, name)[first:last] for name in STEP_COLUMNS},
        extras={name: values[first:last] for name, values in story.extras.items()},
    )


def stored_in_pieces(story, capacity, parts, rng):
    """A buffer that was given the story in pieces of random lengths."""
    buffer, first = ReplayBuffer(capacity, parts), 0
    while first < len(story.ended):
        last = first + int(rng.integers(1, 6))
        buffer.add(part(story, first, last))
        first = last
    return buffer


def number_of(story, capacity, size):
    """Age -> (t, e) of the kept transitions, the oldest first."""
    num_envs = story.ended.shape[1]
    return [divmod(number, num_envs) for number in range(story.ended.size - size, story.ended.size)]
