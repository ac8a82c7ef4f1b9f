"""Keras optimizers.

The first argument is there so that the optimizers of both frameworks are made alike; those of Keras take their
variables when training begins.
"""

from collections.abc import Sequence
from typing import Any

import keras


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
    """RMSprop (Tieleman & Hinton 2012)."""
    return keras.optimizers.RMSprop(learning_rate, rho, momentum, epsilon, weight_decay=weight_decay or None)


def sgd(
    parameters: Sequence[Any], learning_rate: float = 1e-2, momentum: float = 0.0, weight_decay: float = 0.0
) -> keras.Optimizer:
    """Stochastic gradient descent, with momentum if asked."""
    return keras.optimizers.SGD(learning_rate, momentum, weight_decay=weight_decay or None)
