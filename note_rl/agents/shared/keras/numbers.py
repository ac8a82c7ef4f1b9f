"""How a network's outputs are read where actions are numbers, in Keras."""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from note_rl.agents.shared.keras.distributions import DiagonalGaussian
from note_rl.agents.shared.pushes import check_shows_hidden, layers_with_pushes
from note_rl.learners.numpy_policy import DenseLayer, dense_layers_of, with_constant_outputs
from note_rl.policy.state_dependent import SMALLEST_VARIANCE
from note_rl.settings import GSDE

_LOG_ROOT_2PI = 0.5 * math.log(2.0 * math.pi)


class Numbers(ABC):
    """One way of spreading actions around their means; `log_std` is learned."""

    @abstractmethod
    def start(self, network: Any, num_actions: int, initial: float) -> tf.Tensor:
        """Returns log_std at the start, all of it `initial`, for a network of the means."""

    @abstractmethod
    def network(self, network: Any) -> Any:
        """Returns what gives the outputs that are read here, made of a network of the means."""

    @abstractmethod
    def answers(self, outputs: tf.Tensor, log_std: tf.Variable) -> tf.Tensor:
        """Returns what action() gives to the policy for outputs [B, O]."""

    @abstractmethod
    def distribution(self, outputs: tf.Tensor, log_std: tf.Variable) -> DiagonalGaussian:
        """Returns the distribution that outputs [B, O] stand for."""

    @abstractmethod
    def log_prob_and_entropy(
        self, outputs: tf.Tensor, log_std: tf.Variable, a: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns log-densities of actions [B, A], [B], and entropies, [B] or the same number for all states."""

    @abstractmethod
    def layers(self, network: Any, log_std: tf.Variable) -> list[DenseLayer] | None:
        """Returns the layers of a network for acting in NumPy, if it has dense ones alone.

        Args:
            network: From `network()`, or a network of the means.
            log_std: The log deviations.
        """


@dataclass(frozen=True)
class SameEverywhere(Numbers):
    """Log deviations [A] are the same in all states; outputs are means [B, A], answers [B, 2A]."""

    def start(self, network: Any, num_actions: int, initial: float) -> tf.Tensor:
        """See `Numbers`: [A]."""
        return tf.fill([num_actions], float(initial))

    def network(self, network: Any) -> Any:
        """See `Numbers`: the network itself."""
        return network

    def answers(self, outputs: tf.Tensor, log_std: tf.Variable) -> tf.Tensor:
        """See `Numbers`: means, then log deviations."""
        return tf.concat([outputs, tf.zeros_like(outputs) + log_std], axis=-1)

    def distribution(self, outputs: tf.Tensor, log_std: tf.Variable) -> DiagonalGaussian:
        """See `Numbers`."""
        return DiagonalGaussian(outputs, tf.identity(log_std))

    def log_prob_and_entropy(
        self, outputs: tf.Tensor, log_std: tf.Variable, a: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """See `Numbers`."""
        distance = (a - outputs) * tf.exp(-log_std)
        log_normal = -0.5 * tf.square(distance) - log_std - _LOG_ROOT_2PI  # [B, A]
        return tf.reduce_sum(log_normal, axis=-1), tf.reduce_sum(log_std + _LOG_ROOT_2PI + 0.5)

    def layers(self, network: Any, log_std: tf.Variable) -> list[DenseLayer] | None:
        """See `Numbers`."""
        layers = dense_layers_of(network)
        return None if layers is None else with_constant_outputs(layers, log_std.numpy())


@dataclass(frozen=True)
class ByState(Numbers):
    """gSDE: outputs are means [B, A] and features [B, F], answers means and pushes [B, A + A*F].

    See `note_rl.policy.state_dependent`. log_std is [F, A], or [F, 1] without `full_std`.
    """

    num_actions: int
    settings: GSDE

    def start(self, network: Any, num_actions: int, initial: float) -> tf.Tensor:
        """See `Numbers`."""
        check_shows_hidden(network)
        num_features = network.output_layer.kernel.shape[0]
        return tf.fill([num_features, num_actions if self.settings.full_std else 1], float(initial))

    def network(self, network: Any) -> Any:
        """See `Numbers`: one that gives both."""
        return WithFeatures(network)

    def deviations(self, log_std: tf.Variable) -> tf.Tensor:
        """Of the noise matrix, [F, A] or [F, 1]; the branch of expln that is not taken has finite slopes."""
        log_std = tf.convert_to_tensor(log_std)
        if not self.settings.use_expln:
            return tf.exp(log_std)
        above = tf.math.log1p(tf.maximum(log_std, 0.0)) + 1.0
        return tf.where(log_std > 0.0, above, tf.exp(tf.minimum(log_std, 0.0)))

    def _split(self, outputs: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        mean, features = outputs[:, : self.num_actions], outputs[:, self.num_actions :]
        limit = self.settings.clip_mean
        return mean if limit is None else tf.clip_by_value(mean, -limit, limit), features

    def answers(self, outputs: tf.Tensor, log_std: tf.Variable) -> tf.Tensor:
        """See `Numbers`."""
        mean, features = self._split(outputs)
        deviations = tf.transpose(self.deviations(log_std)) + tf.zeros((self.num_actions, 1))  # [A, F]
        pushes = features[:, None, :] * deviations  # [B, A, F]
        return tf.concat([mean, tf.reshape(pushes, (-1, self.num_actions * deviations.shape[1]))], axis=-1)

    def distribution(self, outputs: tf.Tensor, log_std: tf.Variable) -> DiagonalGaussian:
        """See `Numbers`: in one state the sum of F normal numbers with deviations feature * sigma, plus the mean."""
        mean, features = self._split(outputs)
        if not self.settings.learn_features:
            features = tf.stop_gradient(features)
        variance = tf.matmul(tf.square(features), tf.square(self.deviations(log_std)))  # [B, A] or [B, 1]
        return DiagonalGaussian(mean, 0.5 * tf.math.log(variance + SMALLEST_VARIANCE) + tf.zeros_like(mean))

    def log_prob_and_entropy(
        self, outputs: tf.Tensor, log_std: tf.Variable, a: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """See `Numbers`."""
        policy = self.distribution(outputs, log_std)
        return policy.log_prob(a), policy.entropy()

    def layers(self, network: Any, log_std: tf.Variable) -> list[DenseLayer] | None:
        """See `Numbers`."""
        plan = getattr(means_of(network), "plan", None)
        if plan is not None and not plan.hidden_is_dense:  # NumPy merges a normalisation: it has no such features
            return None
        layers = dense_layers_of(means_of(network))
        if layers is None:
            return None
        deviations = np.broadcast_to(self.deviations(log_std).numpy().T, (self.num_actions, log_std.shape[0]))
        return layers_with_pushes(layers, deviations, self.settings.clip_mean)


class WithFeatures(keras.Model):  # type: ignore[misc]  # Keras ships no types
    """A network of means whose outputs are followed by what its output layer sees: [B, *obs] -> [B, A + F]."""

    def __init__(self, means: Any) -> None:
        super().__init__()
        self.means = means
        self.built = True

    def call(self, x: tf.Tensor) -> tf.Tensor:
        """Means and features."""
        return self.head(self.features(x))

    def features(self, x: tf.Tensor) -> tf.Tensor:
        """Features from which the means are computed, and from which a value may be computed as well."""
        return self.means.features(x)

    def head(self, features: tf.Tensor) -> tf.Tensor:
        """Means and features [B, A + F] of these."""
        hidden = self.means.last_hidden(features)
        return tf.concat([self.means.output_layer(hidden), hidden], axis=-1)


def means_of(network: Any) -> Any:
    """Returns the network of the means within one from `Numbers.network`."""
    return network.means if isinstance(network, WithFeatures) else network


def numbers_of(num_actions: int, gsde: GSDE | None) -> Numbers:
    """Returns how actions of A numbers are spread around their means."""
    return SameEverywhere() if gsde is None else ByState(num_actions, gsde)
