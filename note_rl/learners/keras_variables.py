"""The variables that Keras agents and optimizers hold, under stable names."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from note_rl.types import Array


def named_variables(agent: Any) -> Iterator[tuple[str, Any]]:
    """Variables of everything the agent holds, under the names of its attributes."""
    for name, value in vars(agent).items():
        if name != "param":
            yield from _named_variables_in(name, value)


def _named_variables_in(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, keras.Layer):
        for index, variable in enumerate(value.variables):
            yield f"{name}/{index}", variable
    elif isinstance(value, (tf.Variable, keras.Variable)):
        yield name, value
    elif isinstance(value, keras.random.SeedGenerator):
        yield f"{name}/state", value.state
    elif isinstance(value, Mapping):
        for key, one in value.items():
            yield from _named_variables_in(f"{name}/{key}", one)
    elif isinstance(value, (list, tuple)):
        for index, one in enumerate(value):
            yield from _named_variables_in(f"{name}/{index}", one)


def optimizer_slots(optimizer: Any) -> Iterator[tuple[str, Any]]:
    """The optimizer's variables but for the learning rate, which stays that of the optimizer at hand."""
    for index, variable in enumerate(optimizer.variables):
        if variable is not optimizer._learning_rate:
            yield str(index), variable


def as_array(variable: Any) -> Array:
    """A copy of its values."""
    return np.asarray(variable.numpy())


@contextmanager
def undisturbed(agent: Any, among: Sequence[Any] | None = None) -> Iterator[list[Any]]:
    """Puts back attributes and variables, random states among them, as they were before the block.

    Args:
        agent: Whose.
        among: The only variables that may change; None: all may.

    Yields:
        A list that holds, after the block, the variables that had changed.
    """
    attributes = dict(vars(agent))
    among = [variable for _, variable in named_variables(agent)] if among is None else among
    before = [(variable, as_array(variable)) for variable in among]
    changed: list[Any] = []
    try:
        yield changed
    finally:
        vars(agent).clear()
        vars(agent).update(attributes)
        for variable, values in before:
            if not np.array_equal(as_array(variable), values):
                variable.assign(values)
                changed.append(variable)
