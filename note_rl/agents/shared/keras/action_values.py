"""How a network's outputs stand for returns of actions, and the losses of that, in Keras."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import tensorflow as tf

from note_rl.agents.shared.keras.choices import where_allowed
from note_rl.agents.shared.keras.distributions import at_action
from note_rl.agents.shared.value_layers import expected_returns_of, mean_layers, mean_returns_of
from note_rl.learners.numpy_policy import Activation, DenseLayer
from note_rl.types import FloatArray

_TINY = 1e-30  # below all probabilities but 0, whose part of an entropy is 0


class ActionValues(ABC):
    """One way of standing for the returns of A actions by N numbers each.

    Attributes:
        num_each: N.
    """

    num_each: int

    @abstractmethod
    def expected(self, outputs: tf.Tensor) -> tf.Tensor:
        """Returns Q-values [B, A] for outputs [B, A * N]."""

    @abstractmethod
    def taken(self, outputs: tf.Tensor, a: tf.Tensor) -> tf.Tensor:
        """Returns the outputs for actions a [B], one for each state: [B, N], or [B] where N is 1."""

    @abstractmethod
    def target(self, r: tf.Tensor, discount: tf.Tensor, next_taken: tf.Tensor) -> tf.Tensor:
        """Returns the targets for rewards r [B] and the returns that follow them, in the form that `losses` takes.

        Args:
            r: Sums of rewards. [B]
            discount: What the next state counts; 0 where the task ended there. [B]
            next_taken: The outputs for the next actions; see `taken`.
        """

    @abstractmethod
    def losses(self, taken: tf.Tensor, target: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns losses [B], and errors [B] by which samples get their priorities."""

    @abstractmethod
    def reported(self, taken: tf.Tensor, target: tf.Tensor) -> Mapping[str, tf.Tensor]:
        """Returns numbers to be logged, by name."""

    @abstractmethod
    def acting_layers(self, layers: list[DenseLayer]) -> list[DenseLayer]:
        """Returns the layers of a network's outputs as those of Q-values, for acting in NumPy."""

    @property
    @abstractmethod
    def expected_in_numpy(self) -> Activation | None:
        """The same as `expected` for NumPy; None: outputs are Q-values."""

    def best(self, outputs: tf.Tensor, mask: tf.Tensor | None) -> tf.Tensor:
        """Returns the outputs for the best action that a mask [B, A] allows; see `taken`."""
        return self.taken(outputs, self.choice(outputs, mask))

    def choice(self, outputs: tf.Tensor, mask: tf.Tensor | None) -> tf.Tensor:
        """Returns the best actions [B] that a mask [B, A] allows."""
        return tf.argmax(where_allowed(self.expected(outputs), mask), axis=1)

    def _each(self, outputs: tf.Tensor) -> tf.Tensor:
        """[B, A, N]."""
        return tf.reshape(outputs, (-1, outputs.shape[1] // self.num_each, self.num_each))

    def _taken_of_several(self, outputs: tf.Tensor, a: tf.Tensor) -> tf.Tensor:
        by_number = tf.transpose(self._each(outputs), (0, 2, 1))  # [B, N, A]
        return at_action(by_number, a[:, None])


@dataclass(frozen=True)
class Expected(ActionValues):
    """The mean of the return, as in DQN."""

    num_each: int = 1

    def expected(self, outputs: tf.Tensor) -> tf.Tensor:
        """See `ActionValues`."""
        return outputs

    def taken(self, outputs: tf.Tensor, a: tf.Tensor) -> tf.Tensor:
        """See `ActionValues`."""
        return at_action(outputs, a)

    def best(self, outputs: tf.Tensor, mask: tf.Tensor | None) -> tf.Tensor:
        """See `ActionValues`."""
        return tf.reduce_max(where_allowed(outputs, mask), axis=1)

    def target(self, r: tf.Tensor, discount: tf.Tensor, next_taken: tf.Tensor) -> tf.Tensor:
        """See `ActionValues`: r + discount * Q."""
        return r + discount * next_taken

    def losses(self, taken: tf.Tensor, target: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """See `ActionValues`: the Huber loss, and TD errors."""
        td_error = target - taken
        error = tf.abs(td_error)
        return tf.where(error < 1.0, 0.5 * tf.square(error), error - 0.5), td_error

    def reported(self, taken: tf.Tensor, target: tf.Tensor) -> Mapping[str, tf.Tensor]:
        """See `ActionValues`."""
        return {"q_mean": taken}

    def acting_layers(self, layers: list[DenseLayer]) -> list[DenseLayer]:
        """See `ActionValues`."""
        return layers

    @property
    def expected_in_numpy(self) -> Activation | None:
        """See `ActionValues`."""
        return None


@dataclass(frozen=True)
class Categorical(ActionValues):
    """Probabilities of N returns z_i, atoms, at equal distances (C51, Bellemare et al. 2017).

    Attributes:
        num_each: N.
        v_min, v_max: The first and the last one.
    """

    num_each: int
    v_min: float
    v_max: float

    @property
    def distance(self) -> float:
        """Between neighbours."""
        return (self.v_max - self.v_min) / (self.num_each - 1)

    @property
    def _atoms(self) -> FloatArray:
        return np.linspace(self.v_min, self.v_max, self.num_each, dtype=np.float32)

    def expected(self, outputs: tf.Tensor) -> tf.Tensor:
        """See `ActionValues`: the sum of p_i z_i."""
        return tf.reduce_sum(tf.nn.softmax(self._each(outputs)) * self._atoms, axis=2)

    def taken(self, outputs: tf.Tensor, a: tf.Tensor) -> tf.Tensor:
        """See `ActionValues`: logits [B, N]."""
        return self._taken_of_several(outputs, a)

    def target(self, r: tf.Tensor, discount: tf.Tensor, next_taken: tf.Tensor) -> tf.Tensor:
        """See `ActionValues`: the projection of r + discount * z onto the atoms (algorithm 1), [B, N].

        Each of these returns, clipped to the bounds, gives its probability to the two atoms beside it, the more the
        nearer: max(0, 1 - distance / distance of neighbours) (eq. 7).
        """
        returns = r[:, None] + discount[:, None] * self._atoms  # [B, N]
        place = (tf.clip_by_value(returns, self.v_min, self.v_max) - self.v_min) / self.distance
        index = tf.range(self.num_each, dtype=tf.float32)
        shares = tf.nn.relu(1.0 - tf.abs(place[:, :, None] - index))  # [B, N of returns, N of atoms]
        return tf.linalg.matvec(shares, tf.nn.softmax(next_taken), transpose_a=True)

    def losses(self, taken: tf.Tensor, target: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """See `ActionValues`: cross-entropies, and Kullback-Leibler divergences (Hessel et al. 2018, section 3).

        They differ by the entropy of the target, so that their gradients are the same, and what is learned has error 0.
        """
        loss = -tf.reduce_sum(target * tf.nn.log_softmax(taken), axis=1)
        entropy = -tf.reduce_sum(target * tf.math.log(tf.maximum(target, _TINY)), axis=1)
        return loss, loss - entropy

    def reported(self, taken: tf.Tensor, target: tf.Tensor) -> Mapping[str, tf.Tensor]:
        """See `ActionValues`; `at_bounds` is the probability of `v_min` and `v_max` in the targets."""
        mean = tf.reduce_sum(tf.nn.softmax(taken) * self._atoms, axis=1)
        return {"q_mean": mean, "at_bounds": target[:, 0] + target[:, -1]}

    def acting_layers(self, layers: list[DenseLayer]) -> list[DenseLayer]:
        """See `ActionValues`."""
        *hidden, (kernel, bias, _) = layers
        return [*hidden, (kernel, bias, self.expected_in_numpy)]

    @property
    def expected_in_numpy(self) -> Activation:
        """See `ActionValues`."""
        return expected_returns_of(self.v_min, self.v_max, self.num_each)


def quantile_losses(found: tf.Tensor, target: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """The quantile Huber losses of N quantiles, those at (i + 1/2) / N, for K targets (Dabney et al. 2018, eq. 10).

    With u = target_j - quantile_i, a loss is the sum over i of the mean over j of |tau_i - (u < 0)| Huber(u).

    Args:
        found: The quantiles. [B, N]
        target: Without a gradient. [B, K]

    Returns:
        Losses [B], and the errors of the means [B].
    """
    num = found.shape[1]
    tau = ((tf.range(num, dtype=tf.float32) + 0.5) / num)[:, None]
    fixed = tf.stop_gradient(found)
    u = target[:, None, :] - fixed[:, :, None]  # [B, N quantiles, K targets]
    clipped = tf.clip_by_value(u, -1.0, 1.0)  # the slope of Huber(u), which is clipped * (u - clipped / 2)
    slope = tf.where(u < 0.0, 1.0 - tau, tau) * clipped
    loss = tf.reduce_sum(tf.reduce_mean(slope * (u - 0.5 * clipped), axis=2), axis=1)
    mean_slope = tf.reduce_mean(slope, axis=2)
    error = tf.abs(tf.reduce_mean(target, axis=1) - tf.reduce_mean(fixed, axis=1))
    # Its gradient is written down, as backpropagation would pass over [B, N, K] numbers a dozen times more.
    return loss - tf.reduce_sum(mean_slope * (found - fixed), axis=1), error


@dataclass(frozen=True)
class Quantiles(ActionValues):
    """N quantiles of the return, those at (i + 1/2) / N (QR-DQN, Dabney et al. 2018).

    Attributes:
        num_each: N.
    """

    num_each: int

    def expected(self, outputs: tf.Tensor) -> tf.Tensor:
        """See `ActionValues`: their mean."""
        return tf.reduce_mean(self._each(outputs), axis=2)

    def taken(self, outputs: tf.Tensor, a: tf.Tensor) -> tf.Tensor:
        """See `ActionValues`: [B, N]."""
        return self._taken_of_several(outputs, a)

    def target(self, r: tf.Tensor, discount: tf.Tensor, next_taken: tf.Tensor) -> tf.Tensor:
        """See `ActionValues`: r + discount * quantiles, [B, N]."""
        return r[:, None] + discount[:, None] * next_taken

    def losses(self, taken: tf.Tensor, target: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """See `ActionValues` and `quantile_losses`."""
        return quantile_losses(taken, target)

    def reported(self, taken: tf.Tensor, target: tf.Tensor) -> Mapping[str, tf.Tensor]:
        """See `ActionValues`."""
        return {"q_mean": tf.reduce_mean(taken, axis=1)}

    def acting_layers(self, layers: list[DenseLayer]) -> list[DenseLayer]:
        """See `ActionValues`."""
        return mean_layers(layers, self.num_each)

    @property
    def expected_in_numpy(self) -> Activation:
        """See `ActionValues`."""
        return mean_returns_of(self.num_each)
