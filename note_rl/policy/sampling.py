"""Drawing from probabilities: one action, or several choices that are made at once."""

from typing import Any

import numpy as np

from note_rl.errors import AgentContractError
from note_rl.types import Array, FloatArray, IntArray

SMALLEST = np.finfo(np.float32).tiny
"""The least value of a probability where its logarithm is taken."""


def sample_rows(probabilities: FloatArray, rng: np.random.Generator) -> IntArray:
    """One index per row of [E, ..., A], by inversion of the cumulative sum."""
    return sample_cumulative(np.cumsum(probabilities, axis=-1), rng)


def sample_cumulative(cumulative: FloatArray, rng: np.random.Generator) -> IntArray:
    """The same for the cumulative sums [E, ..., A]."""
    threshold = rng.random((*cumulative.shape[:-1], 1)) * cumulative[..., -1:]
    index: IntArray = np.argmax(cumulative > threshold, axis=-1)
    return index


class OneOfEach:
    """One of each of D sets, whose probabilities stand one behind the other.

    Args:
        space: MultiDiscrete.
    """

    def __init__(self, space: Any) -> None:
        sizes = space.nvec.reshape(-1).astype(np.int64)  # of the type of the space, which may be of 8 bits
        self._space = space
        self._first = np.cumsum(sizes) - sizes  # [D]
        self._width = int(sizes.sum())

    def select(self, scores: FloatArray, rng: np.random.Generator) -> Array:
        """Indices [E, D] for probabilities [E, O]."""
        _check_probabilities(scores, self._width, self._space)
        parts = self._parts(scores)
        for part in parts:
            if abs(float(part[0].sum()) - 1.0) > 1e-3:
                raise AgentContractError(
                    f"SoftmaxPolicy samples from probabilities, which must sum to 1 for each number of {self._space}; "
                    f"action() returned {np.round(part[0], 3).tolist()} for one: give each part a softmax of its own"
                )
        return np.stack([sample_rows(part, rng) for part in parts], axis=-1)

    def greedy(self, scores: FloatArray) -> Array:
        """The most likely indices [E, D]."""
        _check_probabilities(scores, self._width, self._space)
        return np.stack([np.argmax(part, axis=-1) for part in self._parts(scores)], axis=-1)

    def log_prob(self, scores: FloatArray, action: Array) -> FloatArray:
        """Sums [E] of the log-probabilities of the indices."""
        chosen = np.take_along_axis(scores, action + self._first, axis=-1)
        log_prob: FloatArray = np.log(np.maximum(chosen, SMALLEST)).sum(axis=-1)
        return log_prob

    def _parts(self, scores: FloatArray) -> list[FloatArray]:
        return np.split(scores, self._first[1:], axis=-1)


class Switches:
    """D numbers that are 0 or 1.

    Args:
        space: MultiBinary.
    """

    def __init__(self, space: Any) -> None:
        self._space = space

    def select(self, scores: FloatArray, rng: np.random.Generator) -> Array:
        """Numbers [E, D] for the probabilities of 1, [E, D]."""
        _check_probabilities(scores, int(np.prod(self._space.shape)), self._space)
        return (rng.random(scores.shape) < scores).astype(np.int64)

    def greedy(self, scores: FloatArray) -> Array:
        """The likelier of the two values of each switch, [E, D]."""
        _check_probabilities(scores, int(np.prod(self._space.shape)), self._space)
        return (scores > 0.5).astype(np.int64)

    def log_prob(self, scores: FloatArray, action: Array) -> FloatArray:
        """Sums [E] of the log-probabilities of the numbers."""
        chosen = np.where(action == 1, scores, 1.0 - scores)
        log_prob: FloatArray = np.log(np.maximum(chosen, SMALLEST)).sum(axis=-1)
        return log_prob


def _check_probabilities(scores: FloatArray, width: int, space: Any) -> None:
    if scores.shape[-1] != width or scores.min() < 0.0 or scores.max() > 1.0 + 1e-3:
        raise AgentContractError(
            f"for the actions {space}, SoftmaxPolicy takes {width} probabilities per observation, and action() "
            f"returned {scores.shape[-1]} numbers between {scores.min():.3g} and {scores.max():.3g}"
        )
