"""The variables that Keras agents and optimizers hold, under stable names, and what else is traced."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
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


@dataclass(frozen=True, eq=False)
class _Object:
    """Equal to itself and nothing else; held, so that its identity is not given away."""

    one: Any

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Object) and self.one is other.one

    def __hash__(self) -> int:
        return id(self.one)


def constants(agent: Any, without: Collection[str]) -> dict[str, Any]:
    """What tracing takes for constant: numbers and words, in lists and mappings too, and which objects there are.

    Args:
        agent: An agent or an optimizer. Its attributes are looked at; what other objects hold is not.
        without: Names of attributes that come as inputs or do not matter.

    Returns:
        Equal to that of another time if nothing has changed.
    """
    return {name: _constant(value) for name, value in vars(agent).items() if name not in without}


def _constant(value: Any) -> Any:
    if isinstance(value, (int, float, bool, str, type(None))):
        return type(value), value
    if isinstance(value, Mapping):
        return {key: _constant(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [_constant(one) for one in value]
    return _Object(value)
