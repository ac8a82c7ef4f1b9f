"""Dueling DQN in Keras (Wang et al. 2016, https://arxiv.org/abs/1511.06581)."""

import keras
import numpy as np
import tensorflow as tf

from note_rl.agents.declaration import Given
from note_rl.agents.dqn.keras import DQN
from note_rl.agents.dueling_dqn import DuelingDQNSettings
from note_rl.agents.shared.keras.networks import MakeNetwork, mlp, small_uniform
from note_rl.learners.keras.variables import as_array
from note_rl.learners.numpy_policy import DenseLayer, dense_layers_of


class DuelingNetwork(keras.Model):  # type: ignore[misc]  # Keras ships no types
    """Q(s, a) = V(s) + A(s, a) - mean_a A(s, a) (eq. 9), from a shared part and two streams.

    Args:
        shared: Gives the hidden layers of both streams side by side, before their activation. [B, 2 * stream_size]
        stream_size: Width of each.
        num_actions: A.
    """

    def __init__(self, shared: keras.Model, stream_size: int, num_actions: int) -> None:
        super().__init__()
        self.shared = shared
        self.value = keras.layers.Dense(1, **small_uniform(stream_size))
        self.advantage = keras.layers.Dense(num_actions, **small_uniform(stream_size))
        for head in (self.value, self.advantage):
            head.build((None, stream_size))
        self.built = True

    def call(self, x: tf.Tensor) -> tf.Tensor:
        """[B, *obs] -> [B, A]."""
        for_value, for_advantage = tf.split(tf.nn.relu(self.shared(x)), 2, axis=1)
        advantage = self.advantage(for_advantage)
        return self.value(for_value) + advantage - tf.reduce_mean(advantage, axis=1, keepdims=True)

    def dense_layers(self) -> list[DenseLayer] | None:
        """The same as plain layers: after the streams' activation, all that follows is one linear map."""
        shared = dense_layers_of(self.shared, "relu")
        if shared is None:
            return None
        (value, value_bias), (advantage, advantage_bias) = (
            (as_array(head.kernel), as_array(head.bias)) for head in (self.value, self.advantage)
        )
        centred = advantage - advantage.mean(axis=1, keepdims=True)  # [stream, A]
        kernel = np.concatenate([np.broadcast_to(value, centred.shape), centred])  # [2 * stream, A]
        bias = value_bias + advantage_bias - advantage_bias.mean()
        return [*shared, (kernel, bias, "linear")]


def dueling(make: MakeNetwork, stream_size: int = 64) -> MakeNetwork:
    """A maker of dueling networks whose shared part is made by another maker."""
    return lambda shape, num_actions: DuelingNetwork(make(shape, 2 * stream_size), stream_size, num_actions)


class DuelingDQN(DuelingDQNSettings, DQN):
    def make_networks(self, given: Given) -> None:
        """As `DQN`, of dueling networks."""
        shared = given.network or mlp(given.hidden_size, num_layers=1)
        super().make_networks(Given(**{**vars(given), "network": dueling(shared, self.stream_size)}))
