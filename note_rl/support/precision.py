"""Single precision, in which agents act and learn: what becomes of numbers that it does not hold."""

import numpy as np

from note_rl.errors.wording import Sentence, choice
from note_rl.types import Array, FloatArray

OTHER_BOUNDS = Sentence(
    "give it an action_space whose bounds single precision holds (gymnasium.wrappers.TransformAction), or take an "
    "agent that needs none, such as {}",
    choice("PPO with GaussianPolicy"),
)
"""Remedy where bounds are not finite, for messages: RescaleAction does not take infinite ones."""


def in_single_precision(values: Array) -> FloatArray:
    """A copy in which what is too large is infinite."""
    with np.errstate(over="ignore"):
        return values.astype(np.float32)


def are_finite(low: Array, high: Array) -> bool:
    """Whether bounds, and the distances between them, are finite in single precision."""
    low, high = in_single_precision(low), in_single_precision(high)
    with np.errstate(over="ignore", invalid="ignore"):
        return bool(np.isfinite([low, high, high - low]).all())
