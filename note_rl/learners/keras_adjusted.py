"""Numbers of Keras optimizers that hold for one update, and how much gradients scatter."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import keras
import tensorflow as tf

from note_rl.adaptive.gradient_noise import NoiseMoments, of_norms
from note_rl.learners.adjustable import LEARNING_RATE, OptimizerNumbers, of_optimizers
from note_rl.learners.base import temporary_attributes
from note_rl.types import Array

NOT_COMPILABLE = (tf.errors.InvalidArgumentError, tf.errors.UnimplementedError, tf.errors.NotFoundError)
Optimizers = Sequence[tuple[Any, Any]]
_KERAS_NAMES = {"beta1": "beta_1", "beta2": "beta_2", "weight_decay": "weight_decay"}


def numbers_of(optimizers: Optimizers) -> list[OptimizerNumbers]:
    """What they were told. A learning rate that has a schedule of Keras's own cannot be changed, and is left out."""
    found = []
    for index, (optimizer, _) in enumerate(optimizers):
        values = {}
        if isinstance(optimizer._learning_rate, keras.Variable):
            values[LEARNING_RATE] = _told(optimizer.learning_rate)
        for name, keras_name in _KERAS_NAMES.items():
            value = getattr(optimizer, keras_name, None)
            if value is not None:
                values[name] = float(value)
        found.append(OptimizerNumbers(type(optimizer).__name__, values, index if len(optimizers) > 1 else None))
    return found


def _told(rate: Any) -> float:
    """The number that was typed, of which the variable holds the nearest in single precision."""
    return float(str(rate.numpy()))


@contextmanager
def with_learning_rates(optimizers: Optimizers, scalars: Mapping[str, Any]) -> Iterator[None]:
    """Gives optimizers the learning rates that hold for the block, and then back those from before."""
    told = {index: one[LEARNING_RATE] for index, one in of_optimizers(scalars).items() if LEARNING_RATE in one}
    before = {index: optimizers[index][0].learning_rate.numpy() for index in told}
    for index, rate in told.items():
        optimizers[index][0].learning_rate.assign(rate)
    try:
        yield
    finally:
        for index, rate in before.items():
            optimizers[index][0].learning_rate.assign(rate)


@contextmanager
def with_numbers(optimizers: Optimizers, scalars: Mapping[str, Any]) -> Iterator[None]:
    """While an update is traced: lets optimizers find tensors where they look for their numbers."""
    with ExitStack() as stack:
        for index, values in of_optimizers(scalars).items():
            tensors = {_KERAS_NAMES[name]: value for name, value in values.items() if name != LEARNING_RATE}
            stack.enter_context(temporary_attributes(optimizers[index][0], tensors))
        yield


class NoiseMeter:
    """Measures how much gradients scatter. The parts of a minibatch are evaluated one by one, in one compiled call.

    Args:
        losses: Of a minibatch, by name [B, ...]: means over it, one per group of parameters, or one for all.
        jit: Whether to compile by XLA.
    """

    def __init__(self, losses: Callable[[dict[str, Any]], list[Any]], jit: bool) -> None:
        self._losses = losses
        self._jit = jit
        self._function: Any = None

    def __call__(self, columns: Mapping[str, Array], groups: Sequence[Sequence[Any]], parts: int) -> list[NoiseMoments]:
        """Measures once.

        Args:
            columns: A minibatch by name, [B, ...], its parts one after the other.
            groups: Parameters, by loss.
            parts: Equal ones.
        """
        if parts < 2:
            return [NoiseMoments(math.nan, math.nan) for _ in groups]
        size = len(columns["reward"])
        split = {name: tf.constant(one.reshape(parts, -1, *one.shape[1:])) for name, one in columns.items()}
        if self._function is None:
            self._function = tf.function(lambda given: self._norms(given, groups), jit_compile=self._jit)
        try:
            norms = self._function(split).numpy()
        except NOT_COMPILABLE:
            if not self._jit:
                raise
            self._jit, self._function = False, None
            return self(columns, groups, parts)
        return [of_norms(float(small), float(big), size // parts, size) for small, big in norms]

    def _norms(self, columns: dict[str, Any], groups: Sequence[Sequence[Any]]) -> Any:
        """Mean squared norm of the gradients of parts [K, b, ...], and that of their mean, per group: [G, 2]."""
        num_parts = columns["reward"].shape[0]

        def body(k: Any, small: Any, mean: list[list[Any]]) -> tuple[Any, Any, list[list[Any]]]:
            with tf.GradientTape(persistent=True) as tape:
                losses = self._losses({name: column[k] for name, column in columns.items()})
            losses = losses if len(losses) == len(groups) else losses * len(groups)
            gradients = [
                tape.gradient(loss, list(group), unconnected_gradients="zero")
                for loss, group in zip(losses, groups, strict=True)
            ]
            squares = tf.stack([_squared_norm(group) for group in gradients])
            mean = [
                [total + one / num_parts for total, one in zip(*pair, strict=True)]
                for pair in zip(mean, gradients, strict=True)
            ]
            return k + 1, small + squares / num_parts, mean

        zeros = [[tf.zeros(one.shape) for one in group] for group in groups]
        start = (0, tf.zeros(len(groups)), zeros)
        _, small, mean = tf.while_loop(lambda k, *_: k < num_parts, body, start)
        return tf.stack([small, tf.stack([_squared_norm(group) for group in mean])], axis=1)


def _squared_norm(tensors: Sequence[Any]) -> Any:
    return tf.add_n([tf.reduce_sum(tf.square(one)) for one in tensors])
