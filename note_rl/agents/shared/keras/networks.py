"""Networks in Keras."""

import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from note_rl.agents.shared.architecture import uniform_bound
from note_rl.agents.shared.keras.noisy import dense_layer, in_numpy
from note_rl.agents.shared.keras.noisy import small_uniform as small_uniform  # which others import from here
from note_rl.agents.shared.perceptrons import CNNSettings, MLPSettings
from note_rl.agents.shared.spaces import ContinuousSpaces, image_shape, say_if_pixels
from note_rl.environments.frames import channels_first
from note_rl.environments.observation_packing import shape_with_action
from note_rl.learners.keras.variables import as_array
from note_rl.learners.numpy_noise import NoisyStage
from note_rl.learners.numpy_policy import DenseLayer, dense_layers_of, scaled_tanh
from note_rl.settings.field_arguments import taking
from note_rl.types import Activation

MakeNetwork = Callable[[tuple[int, ...], int], keras.Model]


def as_numbers(x: tf.Tensor) -> tf.Tensor:
    """The input of a network in single precision: bytes of images as 0 to 1, whole numbers as they are."""
    return tf.cast(x, tf.float32) / 255.0 if x.dtype == tf.uint8 else tf.cast(x, tf.float32)


def begin_weights(module: Any, initializer: str, gain: float) -> None:
    """Draws the weights; biases start at 0, or with `uniform` weights within their bounds."""
    shape = module.kernel.shape  # [..., in, out]
    if initializer == "orthogonal":
        module.kernel.assign(keras.initializers.Orthogonal(gain)(shape))
        module.bias.assign(module.bias * 0.0)
        return
    window = int(np.prod(shape[:-2]))
    bound = uniform_bound(initializer, gain, window * shape[-2], window * shape[-1])
    module.kernel.assign(keras.initializers.RandomUniform(-bound, bound)(shape))
    if initializer == "uniform":  # a second object: the first one would give the kernel's numbers again
        module.bias.assign(keras.initializers.RandomUniform(-bound, bound)(module.bias.shape))
    else:
        module.bias.assign(module.bias * 0.0)


class MLP(keras.Sequential):  # type: ignore[misc]  # Keras ships no types
    """A multilayer perceptron over flattened observations, with a linear last layer.

    Weights and biases start uniform in +-1/sqrt(fan in), which keeps first values small, as Q-learning needs.

    Args:
        input_shape: Shape of one observation.
        num_outputs: Width of the last layer.
        hidden_sizes, activation, initializer, noisy_std: See `MLPSettings`.
    """

    @taking(MLPSettings)
    def __init__(self, input_shape: tuple[int, ...], num_outputs: int, settings: MLPSettings) -> None:
        say_if_pixels(input_shape)
        widths = [math.prod(input_shape), *settings.hidden_sizes]
        std = settings.noisy_std
        hidden = [dense_layer(i, o, settings.activation, std=std) for i, o in pairwise(widths)]
        last = dense_layer(widths[-1], num_outputs, std=std)
        flatten = [] if len(input_shape) == 1 else [keras.layers.Flatten()]
        super().__init__([keras.Input(input_shape), *flatten, *hidden, last])
        self.settings = settings
        self.hidden_activation = settings.activation
        self.initializer = settings.initializer
        if self.initializer is not None:
            self._draw(self.initializer, 1.0)

    def call(self, inputs: tf.Tensor, training: bool | None = None, mask: tf.Tensor | None = None) -> tf.Tensor:
        """[B, *input_shape] -> [B, num_outputs]."""
        return super().call(as_numbers(inputs), training=training, mask=mask)

    def features(self, x: tf.Tensor) -> tf.Tensor:
        """Activations of the last hidden layer for observations, [B, F]."""
        x = as_numbers(x)
        for layer in self.layers[:-1]:
            x = layer(x)
        return x

    def last_hidden(self, features: tf.Tensor) -> tf.Tensor:
        """The output layer's input, [B, F]."""
        return features

    @property
    def output_layer(self) -> keras.layers.Dense:
        """The last one."""
        return self.layers[-1]

    def start_orthogonal(self, output_gain: float) -> None:
        """Orthogonal weights of gain sqrt(2), the last layer's of `output_gain`, and biases 0, as PPO starts.

        A small gain makes a policy start out nearly uniform (Andrychowicz et al. 2021, section 3.2). Weights of another
        initializer that was asked for stay as they are.
        """
        if self.initializer in (None, "orthogonal"):
            self._draw("orthogonal", output_gain)

    def _draw(self, initializer: str, output_gain: float) -> None:
        hidden = 2**0.5 if initializer == "orthogonal" else 1.0
        for layer in self._dense():
            begin_weights(layer, initializer, output_gain if layer is self.layers[-1] else hidden)

    def _dense(self) -> list[keras.layers.Dense]:
        return [layer for layer in self.layers if isinstance(layer, keras.layers.Dense)]

    def dense_layers(self) -> list[DenseLayer]:
        """Copies of the weights in the form that acting in NumPy takes."""
        dense = self._dense()
        return [
            (
                as_array(layer.kernel),
                as_array(layer.bias),
                "linear" if layer is dense[-1] else self.hidden_activation,
            )
            for layer in dense
        ]

    def noisy_stages(self, output_activation: str) -> list[NoisyStage]:
        """The layers with their noise for acting in NumPy."""
        *before, last = self._dense()
        hidden: list[NoisyStage] = [in_numpy(layer, self.hidden_activation) for layer in before]
        return [*hidden, in_numpy(last, output_activation)]


def mlp(hidden_size: int | Sequence[int], activation: Activation = "relu", num_layers: int = 2) -> MakeNetwork:
    """A maker of perceptrons.

    Args:
        hidden_size: Widths of the hidden layers; a single number: that of each.
        activation: See `MLP`.
        num_layers: How many a single number means.
    """
    widths = (hidden_size,) * num_layers if isinstance(hidden_size, int) else hidden_size
    return lambda input_shape, num_outputs: MLP(input_shape, num_outputs, widths, activation)


class CNN(keras.Model):  # type: ignore[misc]
    """The convolutional network of Mnih et al. 2015 for images of 36 pixels or more a side.

    Args:
        input_shape: Shape of one observation, [H, W], [H, W, C] or [C, H, W].
        num_outputs: Width of the last layer.
        hidden_sizes, noisy_std: See `CNNSettings`.
    """

    @taking(CNNSettings)
    def __init__(self, input_shape: tuple[int, ...], num_outputs: int, settings: CNNSettings) -> None:
        super().__init__()
        image = image_shape(input_shape)
        self.channels_first = channels_first(input_shape)
        channels = image[-1]
        self.convolutions = keras.Sequential([keras.Input(image)])
        for filters, size, stride in ((32, 8, 4), (64, 4, 2), (64, 3, 1)):
            start = small_uniform(channels * size**2)
            self.convolutions.add(keras.layers.Conv2D(filters, size, stride, activation="relu", **start))
            channels = filters
        self.convolutions.add(keras.layers.Flatten())
        features = self.convolutions.output_shape[1:]
        self.head = MLP(features, num_outputs, settings.hidden_sizes, noisy_std=settings.noisy_std)

    def call(self, x: tf.Tensor) -> tf.Tensor:
        """[B, *input_shape] -> [B, num_outputs]."""
        return self.head(self._seen(x))

    def _seen(self, x: tf.Tensor) -> tf.Tensor:
        x = as_numbers(x if x.shape.rank == 4 else x[..., None])
        return self.convolutions(tf.transpose(x, (0, 2, 3, 1)) if self.channels_first else x)

    def features(self, x: tf.Tensor) -> tf.Tensor:
        """See `MLP`."""
        return self.head.features(self._seen(x))

    def last_hidden(self, features: tf.Tensor) -> tf.Tensor:
        """See `MLP`."""
        return features

    @property
    def output_layer(self) -> keras.layers.Dense:
        """See `MLP`."""
        return self.head.output_layer


class TanhActor(keras.Model):  # type: ignore[misc]
    """A network whose outputs are brought between the bounds of the action by tanh: [B, *obs] -> [B, A]."""

    def __init__(self, make: MakeNetwork, spaces: ContinuousSpaces) -> None:
        super().__init__()
        self.net = make(spaces.obs_shape, spaces.action_size)
        self.centre = spaces.centre
        self.scale = spaces.scale

    def call(self, s: tf.Tensor) -> tf.Tensor:
        """Actions [B, A]."""
        return self.centre + self.scale * tf.tanh(self.net(s))

    def dense_layers(self) -> list[DenseLayer] | None:
        """For acting in NumPy, if the network consists of dense layers."""
        return dense_layers_of(self.net, scaled_tanh(self.centre, self.scale))


class QNetwork(keras.Model):  # type: ignore[misc]
    """Q(s, a) [B]: the action, brought to [-1, 1], joins a flat observation, or what is seen in an image.

    Encoders of an observation that was a dictionary leave the action as it is; see `shape_with_action`.

    Args:
        make: Makes the network from (input shape, number of outputs). Of images, it makes one with
            `num_features` outputs and an `MLP` goes on from there.
        spaces: Of observations and actions.
        num_features: Numbers that an image is summed up in.
        num_outputs: Of the network; `call` takes the only one.
    """

    def __init__(
        self, make: MakeNetwork, spaces: ContinuousSpaces, num_features: int = 64, num_outputs: int = 1
    ) -> None:
        super().__init__()
        self.centre = spaces.centre
        self.scale = spaces.unit
        flat = len(spaces.obs_shape) == 1
        self.encoder = None if flat else make(spaces.obs_shape, num_features)
        inputs = shape_with_action(spaces.obs_shape if flat else (num_features,), spaces.action_size)
        self.net = make(inputs, num_outputs) if flat else MLP(inputs, num_outputs)

    def call(self, s: tf.Tensor, a: tf.Tensor) -> tf.Tensor:
        """Values [B] of actions [B, A] in states [B, *obs]."""
        return self._values(s, a)[:, 0]

    def _values(self, s: tf.Tensor, a: tf.Tensor) -> tf.Tensor:
        """All outputs, [B, num_outputs]."""
        seen = tf.cast(s, tf.float32) if self.encoder is None else self.encoder(s)
        return self.net(tf.concat([seen, (a - self.centre) / self.scale], axis=1))


def soft_update(target: keras.Model, online: keras.Model, tau: float) -> None:
    """Moves target <- target + tau * (online - target); tau = 1 copies (Lillicrap et al. 2016, section 3).

    Running statistics, as those of batch normalisation, are copied: they follow the data, not the gradient. Layers that
    are frozen for a while still move.
    """
    for mine, theirs in zip(target.weights, online.weights, strict=True):
        copying = not theirs.value.trainable or (isinstance(tau, float | int) and tau == 1)
        mine.assign(theirs if copying else mine + tau * (theirs - mine))
