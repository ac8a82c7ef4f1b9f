"""What a stochastic policy does in each state of a batch, in Keras: how likely actions are, how policies differ."""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Self

import tensorflow as tf

_LOG_ROOT_2PI = 0.5 * math.log(2.0 * math.pi)


class Distribution(ABC):
    """What is done in each of B states."""

    @abstractmethod
    def log_prob(self, a: tf.Tensor) -> tf.Tensor:
        """Returns the log-probabilities [B] of actions a, one for each state."""

    @abstractmethod
    def entropy(self) -> tf.Tensor:
        """[B]."""

    @abstractmethod
    def detached(self) -> Self:
        """The same, from which no gradient goes back, and which parameters that change do not reach."""

    @abstractmethod
    def kl(self, other: Self) -> tf.Tensor:
        """KL(self || other) [B]."""


@dataclass(frozen=True)
class Categorical(Distribution):
    """One of A actions, by log-probabilities [B, A]."""

    log_probs: tf.Tensor

    def log_prob(self, a: tf.Tensor) -> tf.Tensor:
        """See `Distribution`."""
        return tf.gather(self.log_probs, a, axis=1, batch_dims=1)

    def entropy(self) -> tf.Tensor:
        """See `Distribution`."""
        return -tf.reduce_sum(tf.exp(self.log_probs) * self.log_probs, axis=-1)

    def detached(self) -> Self:
        """See `Distribution`."""
        return type(self)(tf.stop_gradient(self.log_probs))

    def kl(self, other: Self) -> tf.Tensor:
        """See `Distribution.kl`: the sum over actions of p (log p - log q)."""
        return tf.reduce_sum(tf.exp(self.log_probs) * (self.log_probs - other.log_probs), axis=-1)


@dataclass(frozen=True)
class DiagonalGaussian(Distribution):
    """Vectors of A independent normal numbers, by mean [B, A] and log deviation [A] or [B, A]."""

    mean: tf.Tensor
    log_std: tf.Tensor

    def log_prob(self, a: tf.Tensor) -> tf.Tensor:
        """See `Distribution`."""
        distance = (a - self.mean) * tf.exp(-self.log_std)
        return tf.reduce_sum(-0.5 * tf.square(distance) - self.log_std - _LOG_ROOT_2PI, axis=-1)

    def entropy(self) -> tf.Tensor:
        """See `Distribution`."""
        return tf.reduce_sum(tf.zeros_like(self.mean) + self.log_std + _LOG_ROOT_2PI + 0.5, axis=-1)

    def detached(self) -> Self:
        """See `Distribution`."""
        return type(self)(tf.stop_gradient(self.mean), tf.stop_gradient(self.log_std))

    def kl(self, other: Self) -> tf.Tensor:
        """See `Distribution.kl`: the sum of log(q/p) + (p^2 + distance^2) / 2 q^2 - 1/2 with deviations p and q."""
        ratio = self.log_std - other.log_std
        distance = (self.mean - other.mean) * tf.exp(-other.log_std)
        return tf.reduce_sum(0.5 * tf.exp(2.0 * ratio) + 0.5 * tf.square(distance) - ratio - 0.5, axis=-1)
