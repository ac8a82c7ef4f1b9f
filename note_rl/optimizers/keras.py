"""Keras optimizers.

The first argument is there so that the optimizers of both frameworks are made alike; those of Keras take their
variables when training begins.
"""

from collections.abc import Sequence
from typing import Any

import keras
from keras import ops

from note_rl.learners.base import temporary_attributes
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


class _CorrectedEpsilon:
    """Adds epsilon to the root of the corrected mean of g^2, as algorithm 1 of Kingma & Ba 2015 and PyTorch do.

    Keras adds it before that is corrected. In the first steps it then counts sqrt(1 / (1 - beta2)) times, which is 32
    for beta2 = 0.999: with the usual 1e-5, gradients below 3e-4 hardly move anything.
    """

    def update_step(self: Any, gradient: Any, variable: Any, learning_rate: Any) -> None:
        """Changes one variable; called by Keras."""
        numbers = self.beta_2, self.iterations + 1, self.epsilon
        beta2, step, epsilon = (ops.cast(one, variable.dtype) for one in numbers)
        corrected = epsilon * ops.sqrt(1.0 - ops.power(beta2, step))
        corrected = ops.where(corrected > 0.0, corrected, epsilon)  # it rounds to 0 in half precision: steps of 0 / 0
        with temporary_attributes(self, {"epsilon": corrected}):
            super().update_step(gradient, variable, learning_rate)  # type: ignore[misc]


@keras.saving.register_keras_serializable("note_rl")
class Adam(_CorrectedEpsilon, keras.optimizers.Adam):  # type: ignore[misc]
    """That of Keras with a corrected epsilon."""


@keras.saving.register_keras_serializable("note_rl")
class AdamW(_CorrectedEpsilon, keras.optimizers.AdamW):  # type: ignore[misc]
    """That of Keras with a corrected epsilon."""


@taking(AdamSettings)
def adam(parameters: Sequence[Any], settings: AdamSettings) -> keras.Optimizer:
    """Adam (Kingma & Ba 2015). A weight decay above 0 is decoupled, as Keras does it."""
    return Adam(
        settings.learning_rate,
        settings.beta1,
        settings.beta2,
        settings.epsilon,
        weight_decay=settings.weight_decay or None,
    )


@taking(AdamWSettings)
def adamw(parameters: Sequence[Any], settings: AdamWSettings) -> keras.Optimizer:
    """Adam with decoupled weight decay (Loshchilov & Hutter 2019)."""
    return AdamW(settings.learning_rate, settings.weight_decay, settings.beta1, settings.beta2, settings.epsilon)


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
