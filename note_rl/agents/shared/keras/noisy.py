"""Noisy layers in Keras (Fortunato et al. 2018, https://arxiv.org/abs/1706.10295)."""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import keras
import tensorflow as tf

from note_rl.agents.resampled_noise import refuse_without_noise
from note_rl.learners.keras.variables import as_array
from note_rl.learners.numpy_noise import NoisyDenseLayer


def small_uniform(num_inputs: int) -> dict[str, keras.initializers.Initializer]:
    """Initializers of a layer whose weights and biases start uniform in +-1/sqrt(num_inputs), as PyTorch's do."""
    bound = num_inputs**-0.5
    return {
        name: keras.initializers.RandomUniform(-bound, bound) for name in ("kernel_initializer", "bias_initializer")
    }


class NoisyDense(keras.layers.Dense):  # type: ignore[misc]  # Keras ships no types
    """A dense layer with learned, factorised Gaussian noise on its weights (eq. 9 to 11).

    y = W x + b + f(n_out) * (S (f(n_in) * x) + s) before the activation, for normal numbers n and f(n) = sign(n)
    sqrt|n|, where S and s are learned and begin at std / sqrt(fan in) (section 3.2). Without numbers, with
    training=False, there is no noise.

    Args:
        units: Numbers that it gives.
        activation: Behind it; None: none.
        std: sigma_0 of the paper.
        **options: Of `keras.layers.Dense`.

    Attributes:
        noise: f(n_in) [B, in] and f(n_out) [B, units]; None: there is none.
    """

    def __init__(self, units: int, activation: str | None = None, *, std: float, **options: Any) -> None:
        super().__init__(units, activation, **options)
        self.std = std
        self.noise: tuple[tf.Tensor, tf.Tensor] | None = None

    def build(self, input_shape: tuple[int | None, ...]) -> None:
        """Makes the weights."""
        super().build(input_shape)
        start = keras.initializers.Constant(self.std / math.sqrt(input_shape[-1] or 1))
        self.kernel_std = self.add_weight(name="kernel_std", shape=(input_shape[-1], self.units), initializer=start)
        self.bias_std = self.add_weight(name="bias_std", shape=(self.units,), initializer=start)

    def call(self, inputs: tf.Tensor, training: bool | None = None) -> tf.Tensor:
        """[B, in] -> [B, units]."""
        y = keras.ops.matmul(inputs, self.kernel) + self.bias
        if self.noise is None:
            refuse_without_noise(training is True)
        else:
            of_inputs, of_outputs = self.noise
            y = y + of_outputs * (keras.ops.matmul(of_inputs * inputs, self.kernel_std) + self.bias_std)
        return self.activation(y)


def dense_layer(num_inputs: int, units: int, activation: str | None = None, *, std: float) -> keras.layers.Dense:
    """Makes a layer that starts as PyTorch's do: a noisy one, or where `std` is 0 a plain one."""
    start = small_uniform(num_inputs)
    return NoisyDense(units, activation, std=std, **start) if std else keras.layers.Dense(units, activation, **start)


def in_numpy(layer: keras.layers.Dense, activation: str) -> NoisyDenseLayer:
    """Returns a layer, noisy or not, for acting in NumPy: copies of its weights."""
    weights = [layer.kernel, layer.bias]
    if isinstance(layer, NoisyDense):
        weights += [layer.kernel_std, layer.bias_std]
    kernel, bias, *stds = map(as_array, weights)
    return NoisyDenseLayer(kernel, bias, activation, *stds)


def noisy_layers(network: keras.Layer) -> list[NoisyDense]:
    """Returns the noisy layers of a network, in the order of attributes and lists."""
    found = [network] if isinstance(network, NoisyDense) else []
    return found + [noisy for layer in getattr(network, "layers", ()) for noisy in noisy_layers(layer)]


def noisy_std_of(network: keras.Model) -> float:
    """Returns sigma_0 of the last noisy layer of a network; 0 where there is none."""
    return next((layer.std for layer in reversed(noisy_layers(network))), 0.0)


def num_noise(network: keras.Model) -> int:
    """Returns how many normal numbers the noise of a network is made of; 0: it has no noisy layers."""
    return sum(_num_inputs(layer) + layer.units for layer in noisy_layers(network))


def _num_inputs(layer: NoisyDense) -> int:
    return int(layer.kernel.shape[0])


def noisy_outputs(network: keras.Model, x: tf.Tensor, noise: tf.Tensor | None) -> tf.Tensor:
    """Returns the outputs of a network for inputs [B, ...] with noise of normal numbers [B, F]; None: without noise."""
    if noise is None:
        return network(x)
    with _noise_in(network, noise):
        return network(x)


@contextmanager
def _noise_in(network: keras.Model, normal: tf.Tensor) -> Iterator[None]:
    layers = noisy_layers(network)
    sizes = [size for layer in layers for size in (_num_inputs(layer), layer.units)]
    parts = tf.split(tf.sign(normal) * tf.sqrt(tf.abs(normal)), sizes, axis=1)
    for index, layer in enumerate(layers):
        layer.noise = parts[2 * index], parts[2 * index + 1]
    try:
        yield
    finally:
        for layer in layers:
            layer.noise = None
