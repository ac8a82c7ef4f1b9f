"""A rollout that is read in whole sequences of one environment each, for agents with a state."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from note_rl.replay.frame_ring import FrameRing
from note_rl.replay.ring import gathered
from note_rl.replay.rollout import Rollout
from note_rl.types import EPISODE_START, STATE_BEFORE, Array, BoolArray, FloatArray, IntArray, Sample, Steps

ValueFromState = Callable[[Array, Array, FloatArray], FloatArray]
"""(observations and those after them, [N, *obs] each, states before the first [N, S]) -> values of both, [2, N]."""


class SequencedRollout(Rollout):
    """T*E transitions whose minibatches consist of whole sequences, with the states before their first steps.

    Args:
        steps: The transitions, with `state_before` and `episode_start`.
        gamma: Discount of one step.
        frames: See `Rollout`.
        length: Steps of a sequence; T is a multiple of it.
    """

    def __init__(self, steps: Steps, gamma: float, frames: FrameRing | None, length: int) -> None:
        super().__init__(steps, gamma, frames)
        self._length = length
        self._states: FloatArray = self._extras.pop(STATE_BEFORE)
        self._extras[EPISODE_START] = self._extras[EPISODE_START].astype(np.float32)

    def _values(self, value: Any) -> FloatArray:
        """Of `obs` and of `next_obs`, [2, T*E]; each with the state in which the agent saw it, or would have seen it.

        An observation is seen in the state that the one before it has left. So the last observation of an episode that
        a time limit has cut off is valued by an agent that remembers this episode.
        """
        value_from: ValueFromState = value
        parts = [
            value_from(self._seen("obs", index), self._seen("next_obs", index), self._states[index])
            for index in self._pieces()
        ]
        return np.concatenate(parts, axis=1)

    def epochs(self, num_epochs: int, batch_size: int, rng: np.random.Generator) -> IntArray:
        """The minibatches of all epochs [K, B], each of B / L whole sequences, one after the other; see `Rollout`."""
        num_steps, num_envs = self._steps.ended.shape
        first = np.arange(0, num_steps, self._length)[:, None] * num_envs + np.arange(num_envs)
        sequences = first.reshape(-1, 1) + num_envs * np.arange(self._length)  # [T*E / L, L]
        per_batch = batch_size // self._length
        num_batches = len(sequences) // per_batch
        used = num_batches * per_batch
        order = np.concatenate([rng.permutation(len(sequences))[:used] for _ in range(num_epochs)])
        index: IntArray = sequences[order].reshape(num_epochs * num_batches, batch_size)
        return index

    def gather(self, index: IntArray, sync: BoolArray) -> Sample:
        """As `Rollout` does, with the states [K, B / L, S] before the first steps of the sequences."""
        sample = super().gather(index, sync)
        states = gathered(self._states, index[:, :: self._length])
        return replace(sample, extras={**sample.extras, STATE_BEFORE: states})
