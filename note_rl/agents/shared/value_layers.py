"""From distributions of returns to Q-values, for acting in NumPy."""

from dataclasses import dataclass
from functools import partial

import numpy as np

from note_rl.learners.numpy_policy import Activation, DenseLayer
from note_rl.types import FloatArray


def mean_layers(layers: list[DenseLayer], num_each: int) -> list[DenseLayer]:
    """Returns the layers of outputs [B, A * N] as those of the means [B, A] over N numbers, which is a linear map."""
    *hidden, (kernel, bias, activation) = layers
    mean = kernel.reshape(len(kernel), -1, num_each).mean(axis=2), bias.reshape(-1, num_each).mean(axis=1)
    return [*hidden, (*mean, activation)]


def mean_returns_of(num_each: int) -> Activation:
    """Returns a function from outputs [B, A * N] to the means [B, A] over N numbers."""
    return partial(_mean_returns, num_each=num_each)


def _mean_returns(outputs: FloatArray, num_each: int) -> FloatArray:
    mean: FloatArray = outputs.reshape(len(outputs), -1, num_each).mean(axis=2)
    return mean


@dataclass(frozen=True)
class ExpectedReturns:
    """From logits [B, A * N] to the means [B, A] of N returns.

    Args:
        atoms: The returns [N].
    """

    atoms: FloatArray

    @property
    def scale(self) -> float:
        """The size of the terms, which may cancel: rounding goes by it."""
        return float(np.abs(self.atoms).max())

    def __call__(self, logits: FloatArray) -> FloatArray:
        """Returns the means."""
        each = logits.reshape(len(logits), -1, len(self.atoms))
        shares = np.exp(each - each.max(axis=-1, keepdims=True))
        mean: FloatArray = shares @ self.atoms / shares.sum(axis=-1)
        return mean


def expected_returns_of(v_min: float, v_max: float, num_atoms: int) -> Activation:
    """Returns a function from logits [B, A * N] to the means [B, A] of N returns from `v_min` to `v_max`."""
    return ExpectedReturns(np.linspace(v_min, v_max, num_atoms, dtype=np.float32))
