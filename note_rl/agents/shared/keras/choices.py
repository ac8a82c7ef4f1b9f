"""How a network's outputs are read where actions are chosen, not numbers, in Keras."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import partial

import tensorflow as tf

from note_rl.agents.shared.keras.distributions import Bernoulli, Categorical, Distribution, MultiCategorical
from note_rl.agents.shared.spaces import BinarySpaces, DiscreteSpaces, FactoredSpaces, PolicySpaces
from note_rl.learners.numpy_policy import Activation, softmax_of_each

NOT_ALLOWED = -1e9
"""Value or logit of an action that the environment does not allow: finite, so that 0 times its logarithm is 0."""


def where_allowed(values: tf.Tensor, mask: tf.Tensor | None) -> tf.Tensor:
    """Values or logits of actions [..., A], far below all others where a mask [..., A] is 0; None: as they are."""
    return values if mask is None else tf.where(mask < 0.5, NOT_ALLOWED, values)


class Choice(ABC):
    """One way of choosing."""

    @property
    @abstractmethod
    def activation(self) -> str | Activation:
        """Of the outputs, as `answers` has it, for acting in NumPy."""

    @abstractmethod
    def distribution(self, outputs: tf.Tensor) -> Distribution:
        """Returns the distribution that outputs [B, O] stand for."""

    @abstractmethod
    def answers(self, outputs: tf.Tensor) -> tf.Tensor:
        """Returns the probabilities [B, O] that action() gives to the policy."""

    @abstractmethod
    def indicators(self, a: tf.Tensor) -> tf.Tensor:
        """Returns actions as numbers for a network, [B, O]: 1 where something was chosen."""


@dataclass(frozen=True)
class OneOf(Choice):
    """One of several actions."""

    num_actions: int

    @property
    def activation(self) -> str | Activation:
        """See `Choice`."""
        return "softmax"

    def distribution(self, outputs: tf.Tensor) -> Distribution:
        """See `Choice`."""
        return Categorical(tf.nn.log_softmax(outputs))

    def answers(self, outputs: tf.Tensor) -> tf.Tensor:
        """See `Choice`."""
        return tf.nn.softmax(outputs)

    def indicators(self, a: tf.Tensor) -> tf.Tensor:
        """See `Choice`."""
        return tf.one_hot(a, self.num_actions)


@dataclass(frozen=True)
class OneOfEach(Choice):
    """One of each of several sets, `sizes` [D] of which lie behind each other in the outputs (MultiDiscrete)."""

    sizes: tuple[int, ...]

    @property
    def activation(self) -> str | Activation:
        """See `Choice`."""
        return partial(softmax_of_each, sizes=self.sizes)

    def distribution(self, outputs: tf.Tensor) -> Distribution:
        """See `Choice`."""
        return MultiCategorical(tuple(Categorical(tf.nn.log_softmax(part)) for part in self._parts(outputs)))

    def answers(self, outputs: tf.Tensor) -> tf.Tensor:
        """See `Choice`."""
        return tf.concat([tf.nn.softmax(part) for part in self._parts(outputs)], axis=-1)

    def indicators(self, a: tf.Tensor) -> tf.Tensor:
        """See `Choice`."""
        return tf.concat([tf.one_hot(a[:, index], size) for index, size in enumerate(self.sizes)], axis=-1)

    def _parts(self, outputs: tf.Tensor) -> list[tf.Tensor]:
        parts: list[tf.Tensor] = tf.split(outputs, self.sizes, axis=-1)
        return parts


@dataclass(frozen=True)
class Switches(Choice):
    """Several things that are on or off (MultiBinary)."""

    @property
    def activation(self) -> str | Activation:
        """See `Choice`."""
        return "sigmoid"

    def distribution(self, outputs: tf.Tensor) -> Distribution:
        """See `Choice`."""
        return Bernoulli(outputs)

    def answers(self, outputs: tf.Tensor) -> tf.Tensor:
        """See `Choice`."""
        return tf.nn.sigmoid(outputs)

    def indicators(self, a: tf.Tensor) -> tf.Tensor:
        """See `Choice`."""
        return tf.cast(a, tf.float32)


def choice_of(spaces: PolicySpaces) -> Choice | None:
    """Returns how to choose there; None: actions are numbers."""
    if isinstance(spaces, DiscreteSpaces):
        return OneOf(spaces.num_actions)
    if isinstance(spaces, FactoredSpaces):
        return OneOfEach(spaces.sizes)
    return Switches() if isinstance(spaces, BinarySpaces) else None
