"""The names of Keras that are no part of its interface, all of them in this file; written for Keras 3.15.

Each says what it does and why there is no public way. `tests/note_rl/learners/test_keras_internals.py` holds one test
for each name, which says what breaks without it.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import keras
from keras.src.layers import layer as layers

# outermost layer -> training; None: as Keras has it
_training_of: ContextVar[Callable[[Any], bool] | None] = ContextVar("training_of", default=None)
_installing = threading.Lock()
_installed: list[type] = []  # the class of Keras, once for each block that is at work


class _CallContext(layers.CallContext):  # type: ignore[misc]  # Keras ships no types
    """The context of one call of an outermost layer, which begins in the mode that holds where it is made."""

    def __init__(self, entry_layer: Any) -> None:
        super().__init__(entry_layer)
        training_of = _training_of.get()
        if training_of is not None:
            self.set_value("training", training_of(entry_layer))


@contextmanager
def training_decided_by(training_of: Callable[[Any], bool]) -> Iterator[None]:
    """Gives layers that are called in this block their `training`, where the call does not give it.

    Keras asks for a mode where a layer is called from outside of any other layer, and makes a `CallContext` for those
    within: that is where the answer is given. Keras 3 has no global mode any more, and a common outer layer would
    let what is written for one network hold for all that are called after it. The class is Keras' own again outside of
    such blocks; within one, other threads are not concerned, as the mode is that of a context.

    Args:
        training_of: Outermost layer -> training.
    """
    token = _training_of.set(training_of)
    with _installing:
        _installed.append(layers.CallContext if not _installed else _installed[0])
        layers.CallContext = _CallContext
    try:
        yield
    finally:
        with _installing:
            own = _installed.pop()
            if not _installed:
                layers.CallContext = own
        _training_of.reset(token)


def takes_training(layer: Any) -> bool:
    """Whether `call` of a layer has an argument `training`. Keras looks it up once, and says it nowhere else."""
    return bool(layer._call_has_training_arg)


def all_layers(network: Any) -> list[Any]:
    """A layer with all within it, itself first. `Model.layers` shows one level, and layers have no such attribute."""
    return list(network._flatten_layers())


def has_sublayers(layer: Any) -> bool:
    """Whether there are layers among the attributes of a layer; see `all_layers`."""
    return bool(layer._layers)


def kernel_of(layer: Any) -> Any:
    """The variable of the weights of a dense layer. `layer.kernel` may be worked out of several variables."""
    return layer._kernel


def count_of(optimizer: Any) -> Any:
    """The variable in which an optimizer counts steps. `iterations` is a quotient where it accumulates gradients."""
    return optimizer._iterations


@contextmanager
def counting_in(optimizer: Any, count: Any, own: Any) -> Iterator[None]:
    """Lets an optimizer read and raise another count of steps than its own, which it shows, but does not take.

    Its own is given: replicas are traced side by side, and one of them may find here what another has set.
    """
    optimizer._iterations = count
    try:
        yield
    finally:
        optimizer._iterations = own


def rate_of(optimizer: Any) -> Any:
    """The variable or the schedule of the learning rate; `learning_rate` calls a schedule."""
    return optimizer._learning_rate


def variables_of(optimizer: Any) -> list[Any]:
    """Variables that a built optimizer changes; `variables` has its slots only."""
    return list(optimizer._trainable_variables)


def velocity_and_momentum(optimizer: Any, variable: Any) -> tuple[Any, Any]:
    """The slots of RMSprop for a variable, None for a momentum of 0. `update_step` is given the variable only."""
    index = optimizer._get_variable_index(variable)
    return optimizer._velocities[index], optimizer._momentums[index] if optimizer.momentum > 0.0 else None


def held_by(variable: Any) -> Any:
    """The variable of TensorFlow that one of Keras holds, or the one that is given.

    `value` is something else in a stateless scope, and a copy in another precision under autocast.
    """
    return variable._value if isinstance(variable, keras.Variable) else variable


def identity(variable: Any) -> int:
    """Tells variables apart: Keras and TensorFlow may both speak of the same one."""
    return id(variable._value if isinstance(variable, keras.Variable) else variable)
