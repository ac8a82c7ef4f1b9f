"""Batch renormalisation in Keras."""

from typing import Any

import keras
import tensorflow as tf

from note_rl.agents.shared.inserted_layers import EPSILON, LARGEST_D, LARGEST_R, MOMENTUM, WARM_UP


class BatchRenorm(keras.layers.BatchNormalization):  # type: ignore[misc]  # Keras ships no types
    """Batch renormalisation of numbers in a row [B, N]; see `note_rl.agents.shared.inserted_layers`."""

    def __init__(self) -> None:
        super().__init__(momentum=1.0 - MOMENTUM, epsilon=EPSILON)

    def build(self, input_shape: Any) -> None:
        """Makes the variables: also the number of batches, which single precision counts far beyond the warm-up."""
        super().build(input_shape)
        self.num_batches = self.add_weight(name="num_batches", shape=(), initializer="zeros", trainable=False)

    def call(self, inputs: tf.Tensor, training: bool | None = None, mask: tf.Tensor | None = None) -> tf.Tensor:
        """[B, N] -> [B, N]; in train mode the running statistics follow."""
        if not training or not self.trainable:
            return super().call(inputs, training=False, mask=mask)
        running_mean, running_variance = (
            tf.convert_to_tensor(self.moving_mean),
            tf.convert_to_tensor(self.moving_variance),
        )
        mean, variance = tf.reduce_mean(inputs, axis=0), tf.math.reduce_variance(inputs, axis=0)
        deviation = tf.sqrt(variance + EPSILON)
        running = tf.sqrt(running_variance + EPSILON)
        is_warm = tf.convert_to_tensor(self.num_batches) >= WARM_UP
        r = tf.where(is_warm, tf.clip_by_value(deviation / running, 1.0 / LARGEST_R, LARGEST_R), 1.0)
        d = tf.where(is_warm, tf.clip_by_value((mean - running_mean) / running, -LARGEST_D, LARGEST_D), 0.0)
        self.moving_mean.assign(running_mean + MOMENTUM * (tf.stop_gradient(mean) - running_mean))
        self.moving_variance.assign(running_variance + MOMENTUM * (tf.stop_gradient(variance) - running_variance))
        self.num_batches.assign(self.num_batches + 1.0)
        normalised = (inputs - mean) / deviation * tf.stop_gradient(r) + tf.stop_gradient(d)
        return normalised * self.gamma + self.beta
