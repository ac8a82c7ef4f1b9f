"""Distributions of actions in each state of a batch, in Keras: log-probabilities, entropy and KL divergence."""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Self

import tensorflow as tf

_LOG_ROOT_2PI = 0.5 * math.log(2.0 * math.pi)


class Distribution(ABC):
    """Distribution of the action in each of B states."""

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


def at_action(values: tf.Tensor, a: tf.Tensor) -> tf.Tensor:
    """Those of the actions taken: [..., A] at [...] -> [...].

    `tf.gather` with batch_dims does the same; with its gradient it takes three times as many operations to trace.
    """
    taken = tf.one_hot(a, values.shape[-1], on_value=True, off_value=False, dtype=tf.bool)
    return tf.reduce_sum(tf.where(taken, values, 0.0), axis=-1)


@dataclass(frozen=True)
class Categorical(Distribution):
    """One of A actions, by log-probabilities [B, A]."""

    log_probs: tf.Tensor

    def log_prob(self, a: tf.Tensor) -> tf.Tensor:
        """See `Distribution`."""
        return at_action(self.log_probs, a)

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
class MultiCategorical(Distribution):
    """Several independent choices at once: log-probabilities and divergences are sums over them."""

    parts: tuple[Categorical, ...]

    def log_prob(self, a: tf.Tensor) -> tf.Tensor:
        """See `Distribution`; a [B, D] has one number per part."""
        return tf.add_n([part.log_prob(a[:, index]) for index, part in enumerate(self.parts)])

    def entropy(self) -> tf.Tensor:
        """See `Distribution`."""
        return tf.add_n([part.entropy() for part in self.parts])

    def detached(self) -> Self:
        """See `Distribution`."""
        return type(self)(tuple(part.detached() for part in self.parts))

    def kl(self, other: Self) -> tf.Tensor:
        """See `Distribution`."""
        return tf.add_n([mine.kl(theirs) for mine, theirs in zip(self.parts, other.parts, strict=True)])


@dataclass(frozen=True)
class Bernoulli(Distribution):
    """Several independent numbers that are 1 or 0, by log-odds [B, D] of 1."""

    logits: tf.Tensor

    def log_prob(self, a: tf.Tensor) -> tf.Tensor:
        """See `Distribution`: log p where a is 1, log(1 - p) = log p - logit where it is 0."""
        off = 1.0 - tf.cast(a, tf.float32)
        return tf.reduce_sum(tf.math.log_sigmoid(self.logits) - off * self.logits, axis=-1)

    def entropy(self) -> tf.Tensor:
        """See `Distribution`: the sum of (1 - p) logit - log p."""
        off = 1.0 - tf.nn.sigmoid(self.logits)
        return tf.reduce_sum(off * self.logits - tf.math.log_sigmoid(self.logits), axis=-1)

    def detached(self) -> Self:
        """See `Distribution`."""
        return type(self)(tf.stop_gradient(self.logits))

    def kl(self, other: Self) -> tf.Tensor:
        """See `Distribution`: the sum of log p - log q - (1 - p) (logit p - logit q)."""
        off = 1.0 - tf.nn.sigmoid(self.logits)
        of_ones = tf.math.log_sigmoid(self.logits) - tf.math.log_sigmoid(other.logits)
        return tf.reduce_sum(of_ones - off * (self.logits - other.logits), axis=-1)


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
