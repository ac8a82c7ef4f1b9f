"""Numbers of Keras optimizers that hold for one update."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import keras

from note_rl.learners.adjustable import LEARNING_RATE, OptimizerNumbers, of_optimizers
from note_rl.learners.base import temporary_attributes
from note_rl.learners.keras.keras_internals import rate_of

Optimizers = Sequence[tuple[Any, Any]]
_KERAS_NAMES = {"beta1": "beta_1", "beta2": "beta_2", "weight_decay": "weight_decay"}


def numbers_of(optimizers: Optimizers) -> list[OptimizerNumbers]:
    """Returns the numbers that optimizers were made with.

    A learning rate that has a schedule of Keras's own cannot be changed, and is left out.
    """
    numbers = []
    for index, (optimizer, _) in enumerate(optimizers):
        values = {}
        if isinstance(rate_of(optimizer), keras.Variable):
            values[LEARNING_RATE] = _as_typed(optimizer.learning_rate)
        for name, keras_name in _KERAS_NAMES.items():
            value = getattr(optimizer, keras_name, None)
            if value is not None:
                values[name] = float(value)
        numbers.append(OptimizerNumbers(type(optimizer).__name__, values, index if len(optimizers) > 1 else None))
    return numbers


def _as_typed(rate: Any) -> float:
    """Returns the number that was typed, of which the variable holds the nearest in single precision."""
    return float(str(rate.numpy()))


@contextmanager
def with_learning_rates(optimizers: Optimizers, hyperparameters: Mapping[str, float]) -> Iterator[None]:
    """Gives optimizers the learning rates that hold for the block, and then back those from before."""
    numbers = of_optimizers(hyperparameters, len(optimizers))
    rates = {index: values[LEARNING_RATE] for index, values in numbers.items() if LEARNING_RATE in values}
    before = {index: optimizers[index][0].learning_rate.numpy() for index in rates}
    for index, rate in rates.items():
        optimizers[index][0].learning_rate.assign(rate)
    try:
        yield
    finally:
        for index, rate in before.items():
            optimizers[index][0].learning_rate.assign(rate)


@contextmanager
def in_a_trace(optimizers: Optimizers, scalars: Mapping[str, Any]) -> Iterator[None]:
    """Prepares optimizers for the time in which a gradient step is traced.

    They find tensors where they look for their numbers, and do not sum gradients over replicas: these are averaged
    already, and were clipped as such. TensorFlow would keep the graph of such a sum, even of a single replica, for as
    long as the process lives: 70 MB per agent.
    """
    with ExitStack() as stack:
        for optimizer, _ in optimizers:
            stack.enter_context(temporary_attributes(optimizer, {"_all_reduce_sum_gradients": list}))
        for index, values in of_optimizers(scalars, len(optimizers)).items():
            tensors = {_KERAS_NAMES[name]: value for name, value in values.items() if name != LEARNING_RATE}
            stack.enter_context(temporary_attributes(optimizers[index][0], tensors))
        yield
