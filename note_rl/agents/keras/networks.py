"""Networks in Keras."""

from collections.abc import Callable, Sequence

import keras
import numpy as np

from note_rl.errors import SettingsError
from note_rl.learners.mirror import DenseLayer

_ACTIVATIONS = ("relu", "tanh", "elu", "silu")

MakeNetwork = Callable[[tuple[int, ...], int], keras.Model]


def _small_uniform() -> keras.initializers.Initializer:
    return keras.initializers.VarianceScaling(1 / 3, mode="fan_in", distribution="uniform")


class MLP(keras.Sequential):  # type: ignore[misc]  # Keras ships no types
    """A multilayer perceptron over flattened observations, with a linear last layer.

    Weights start uniform in +-1/sqrt(fan in), which keeps first values small, as Q-learning needs; biases start at 0.

    Args:
        input_shape: Shape of one observation.
        num_outputs: Width of the last layer.
        hidden_sizes: Widths of the layers between.
        activation: relu, tanh, elu or silu.
    """

    def __init__(
        self,
        input_shape: tuple[int, ...],
        num_outputs: int,
        hidden_sizes: Sequence[int] = (64, 64),
        activation: str = "relu",
    ) -> None:
        if activation not in _ACTIVATIONS:
            raise SettingsError(f"unknown activation {activation!r}; known are {', '.join(_ACTIVATIONS)}")
        hidden = [keras.layers.Dense(size, activation, kernel_initializer=_small_uniform()) for size in hidden_sizes]
        last = keras.layers.Dense(num_outputs, kernel_initializer=_small_uniform())
        flatten = [] if len(input_shape) == 1 else [keras.layers.Flatten()]
        super().__init__([keras.Input(input_shape), *flatten, *hidden, last])
        self.hidden_activation = activation

    def start_orthogonal(self, output_gain: float) -> None:
        """Orthogonal weights of gain sqrt(2), the last layer's of `output_gain`, and biases 0, as PPO starts.

        A small gain makes a policy start out nearly uniform (Andrychowicz et al. 2021, section 3.2).
        """
        for layer in self._dense():
            gain = output_gain if layer is self.layers[-1] else 2**0.5
            layer.kernel.assign(keras.initializers.Orthogonal(gain)(layer.kernel.shape))
            layer.bias.assign(layer.bias * 0.0)

    def _dense(self) -> list[keras.layers.Dense]:
        return [layer for layer in self.layers if isinstance(layer, keras.layers.Dense)]

    def dense_layers(self, output_activation: str = "linear") -> list[DenseLayer]:
        """Copies of the weights in the form that acting in NumPy takes."""
        dense = self._dense()
        return [
            (
                np.asarray(layer.kernel.numpy()),
                np.asarray(layer.bias.numpy()),
                output_activation if layer is dense[-1] else self.hidden_activation,
            )
            for layer in dense
        ]


def soft_update(target: keras.Model, online: keras.Model, tau: float) -> None:
    """Target <- target + tau * (online - target); tau = 1 copies (Lillicrap et al. 2016, section 3)."""
    for mine, theirs in zip(target.weights, online.weights, strict=True):
        mine.assign(mine + tau * (theirs - mine))
