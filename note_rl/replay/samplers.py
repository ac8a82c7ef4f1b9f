"""Which slots of a ring to read."""

from typing import Protocol

import numpy as np

from note_rl.types import FloatArray, IntArray


class Sampler(Protocol):
    """Chooses slots of a buffer that holds `size` transitions."""

    def draw(self, shape: tuple[int, int], size: int, rng: np.random.Generator) -> tuple[IntArray, FloatArray | None]:
        """Slots of the given shape [K, B] and their importance weights, None if all are 1."""


class UniformSampler:
    """Every stored transition is equally likely; a transition may occur twice."""

    def draw(self, shape: tuple[int, int], size: int, rng: np.random.Generator) -> tuple[IntArray, FloatArray | None]:
        """Slots [K, B], no weights."""
        return rng.integers(size, size=shape), None
