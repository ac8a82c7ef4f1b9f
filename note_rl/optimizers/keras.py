"""Keras optimizers.

The first argument is there so that the optimizers of both frameworks are made alike; those of Keras take their
variables when training begins.
"""

from collections.abc import Sequence
from typing import Any

import keras
from keras import ops


@keras.saving.register_keras_serializable("note_rl")
class RMSprop(keras.optimizers.RMSprop):  # type: ignore[misc]
    """RMSprop with steps of learning_rate * g / (sqrt(v) + epsilon), where v is the mean of g^2.

    That of Keras divides by sqrt(v + epsilon): with the usual 1e-5, gradients below 3e-3 hardly move anything, which
    are most of those of a loss that is a mean.
    """

    def update_step(self, gradient: Any, variable: Any, learning_rate: Any) -> None:
        """Changes one variable; called by Keras."""
        index = self._get_variable_index(variable)
        rate, gradient = (ops.cast(one, variable.dtype) for one in (learning_rate, gradient))
        velocity = self._velocities[index]
        self.assign(velocity, self.rho * velocity + (1.0 - self.rho) * ops.square(gradient))
        step = rate * gradient / (ops.sqrt(velocity) + self.epsilon)
        if self.momentum > 0.0:
            self.assign(self._momentums[index], self.momentum * self._momentums[index] + step)
            step = self._momentums[index]
        self.assign_sub(variable, step)


def adam(
    parameters: Sequence[Any],
    learning_rate: float = 1e-3,
    beta1: float = 0.9,
    beta2: float = 0.999,
    epsilon: float = 1e-8,
    weight_decay: float = 0.0,
) -> keras.Optimizer:
    """Adam (Kingma & Ba 2015). A weight decay above 0 is decoupled, as Keras does it."""
    return keras.optimizers.Adam(learning_rate, beta1, beta2, epsilon, weight_decay=weight_decay or None)


def adamw(
    parameters: Sequence[Any],
    learning_rate: float = 1e-3,
    beta1: float = 0.9,
    beta2: float = 0.999,
    epsilon: float = 1e-8,
    weight_decay: float = 0.01,
) -> keras.Optimizer:
    """Adam with decoupled weight decay (Loshchilov & Hutter 2019)."""
    return keras.optimizers.AdamW(learning_rate, weight_decay, beta1, beta2, epsilon)


def rmsprop(
    parameters: Sequence[Any],
    learning_rate: float = 1e-3,
    rho: float = 0.99,
    epsilon: float = 1e-8,
    momentum: float = 0.0,
    weight_decay: float = 0.0,
) -> keras.Optimizer:
    """RMSprop (Tieleman & Hinton 2012). `epsilon` is added to the root of the mean square, as in PyTorch."""
    return RMSprop(learning_rate, rho, momentum, epsilon, weight_decay=weight_decay or None)


def sgd(
    parameters: Sequence[Any], learning_rate: float = 1e-2, momentum: float = 0.0, weight_decay: float = 0.0
) -> keras.Optimizer:
    """Stochastic gradient descent, with momentum if asked."""
    return keras.optimizers.SGD(learning_rate, momentum, weight_decay=weight_decay or None)
