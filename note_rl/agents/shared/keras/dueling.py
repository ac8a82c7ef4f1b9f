"""Dueling networks in Keras (Wang et al. 2016, https://arxiv.org/abs/1511.06581)."""

import keras
import numpy as np
import tensorflow as tf

from note_rl.agents.shared.keras.networks import MakeNetwork
from note_rl.agents.shared.keras.noisy import dense_layer, in_numpy, noisy_std_of
from note_rl.learners.keras.variables import as_array
from note_rl.learners.numpy_noise import NoisyStage, NoisyStreams, noisy_stages_of
from note_rl.learners.numpy_policy import DenseLayer, dense_layers_of


class DuelingNetwork(keras.Model):  # type: ignore[misc]  # Keras ships no types
    """Q(s, a) = V(s) + A(s, a) - mean_a A(s, a) (eq. 9), from a shared part and two streams.

    Where N numbers stand for the return of an action, each of them is made so (Hessel et al. 2018, section 3).

    Args:
        shared: Gives the hidden layers of both streams side by side, before their activation. [B, 2 * stream_size]
        stream_size: Width of each.
        num_actions: A.
        num_each: N.
    """

    def __init__(self, shared: keras.Model, stream_size: int, num_actions: int, num_each: int = 1) -> None:
        super().__init__()
        self.shared = shared
        std = noisy_std_of(shared)
        self.value = dense_layer(stream_size, num_each, std=std)
        self.advantage = dense_layer(stream_size, num_actions * num_each, std=std)
        self.num_each = num_each
        for head in (self.value, self.advantage):
            head.build((None, stream_size))
        self.built = True

    def call(self, x: tf.Tensor) -> tf.Tensor:
        """[B, *obs] -> [B, A * N]."""
        for_value, for_advantage = tf.split(tf.nn.relu(self.shared(x)), 2, axis=1)
        value, advantage = self.value(for_value), self.advantage(for_advantage)
        if self.num_each == 1:
            return value + advantage - tf.reduce_mean(advantage, axis=1, keepdims=True)
        num_outputs = advantage.shape[1]
        advantage = tf.reshape(advantage, (-1, num_outputs // self.num_each, self.num_each))  # [B, A, N]
        values = value[:, None] + advantage - tf.reduce_mean(advantage, axis=1, keepdims=True)
        return tf.reshape(values, (-1, num_outputs))

    def dense_layers(self) -> list[DenseLayer] | None:
        """The same as plain layers: after the streams' activation, all that follows is one linear map."""
        shared = dense_layers_of(self.shared, "relu")
        if shared is None:
            return None
        (value, value_bias), (advantage, advantage_bias) = (
            (as_array(head.kernel), as_array(head.bias)) for head in (self.value, self.advantage)
        )
        by_action = advantage.reshape(len(advantage), -1, self.num_each)  # [stream, A, N]
        centred = by_action - by_action.mean(axis=1, keepdims=True)
        kernel = np.concatenate([np.broadcast_to(value[:, None], centred.shape), centred])  # [2 * stream, A, N]
        biases = advantage_bias.reshape(-1, self.num_each)
        bias = value_bias + biases - biases.mean(axis=0)
        return [*shared, (kernel.reshape(len(kernel), -1), bias.reshape(-1), "linear")]

    def noisy_stages(self, output_activation: str) -> list[NoisyStage] | None:
        """The layers with their noise for acting in NumPy; nothing stands behind both streams."""
        shared = noisy_stages_of(self.shared, "relu")
        if shared is None:
            return None
        streams = NoisyStreams(in_numpy(self.value, "linear"), in_numpy(self.advantage, "linear"), self.num_each)
        return [*shared, streams]


def dueling(make: MakeNetwork, stream_size: int = 64, num_each: int = 1) -> MakeNetwork:
    """A maker of dueling networks whose shared part is made by another maker.

    Args:
        make: That one.
        stream_size: Width of the hidden layer of each stream.
        num_each: Numbers that stand for the return of one action.
    """

    def made(shape: tuple[int, ...], num_outputs: int) -> keras.Model:
        return DuelingNetwork(make(shape, 2 * stream_size), stream_size, num_outputs // num_each, num_each)

    return made
