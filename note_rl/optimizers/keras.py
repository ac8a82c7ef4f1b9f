"""Keras optimizers.

The first argument is there so that the optimizers of both frameworks are made alike; those of Keras take their
variables when training begins.
"""

from collections.abc import Sequence
from typing import Any

import keras
from keras import ops

from note_rl.learners.keras.keras_internals import velocity_and_momentum
from note_rl.optimizers import AdamSettings, AdamWSettings, RMSpropSettings, SGDSettings
from note_rl.settings.field_arguments import taking


@keras.saving.register_keras_serializable("note_rl")
class RMSprop(keras.optimizers.RMSprop):  # type: ignore[misc]
    """RMSprop with steps of learning_rate * g / (sqrt(v) + epsilon), where v is the mean of g^2.

    That of Keras divides by sqrt(v + epsilon): with the usual 1e-5, gradients below 3e-3 hardly move anything, which
    are most of those of a loss that is a mean.
    """

    def update_step(self, gradient: Any, variable: Any, learning_rate: Any) -> None:
        """Changes one variable; called by Keras."""
        rate, gradient = (ops.cast(one, variable.dtype) for one in (learning_rate, gradient))
        velocity, momentum = velocity_and_momentum(self, variable)
        self.assign(velocity, self.rho * velocity + (1.0 - self.rho) * ops.square(gradient))
        step = rate * gradient / (ops.sqrt(velocity) + self.epsilon)
        if momentum is not None:
            self.assign(momentum, self.momentum * momentum + step)
            step = momentum
        self.assign_sub(variable, step)


@taking(AdamSettings)
def adam(parameters: Sequence[Any], settings: AdamSettings) -> keras.Optimizer:
    """Adam (Kingma & Ba 2015). A weight decay above 0 is decoupled, as Keras does it."""
    return keras.optimizers.Adam(
        settings.learning_rate,
        settings.beta1,
        settings.beta2,
        settings.epsilon,
        weight_decay=settings.weight_decay or None,
    )


@taking(AdamWSettings)
def adamw(parameters: Sequence[Any], settings: AdamWSettings) -> keras.Optimizer:
    """Adam with decoupled weight decay (Loshchilov & Hutter 2019)."""
    return keras.optimizers.AdamW(
        settings.learning_rate, settings.weight_decay, settings.beta1, settings.beta2, settings.epsilon
    )


@taking(RMSpropSettings)
def rmsprop(parameters: Sequence[Any], settings: RMSpropSettings) -> keras.Optimizer:
    """RMSprop (Tieleman & Hinton 2012). `epsilon` is added to the root of the mean square, as in PyTorch."""
    return RMSprop(
        settings.learning_rate,
        settings.rho,
        settings.momentum,
        settings.epsilon,
        weight_decay=settings.weight_decay or None,
    )


@taking(SGDSettings)
def sgd(parameters: Sequence[Any], settings: SGDSettings) -> keras.Optimizer:
    """Stochastic gradient descent, with momentum if asked."""
    return keras.optimizers.SGD(settings.learning_rate, settings.momentum, weight_decay=settings.weight_decay or None)
