"""`training` for the layers of a Keras agent, without its being written: who drops units and moves moving statistics.

Acting, evaluating and judging happen with training=False, losses with training=True. Networks that do not learn, which
is what target networks are, have False in losses, too: they say what to aim at. What the agent itself writes, as in
`self.net(s, training=False)`, holds.

Keras asks for a mode where a layer is called from outside of any other layer, and makes a `CallContext` for the layers
within. That is where the answer is given; Keras 3 has no global mode any more, and a common outer layer would let what
is written for one network hold for all that are called after it.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from contextvars import ContextVar
from typing import Any

import keras
from keras.src.layers import layer as keras_layer

from note_rl.learners.base import temporary_attributes
from note_rl.learners.keras.variables import identity

# outermost layer -> training; None: as Keras has it
_training_of: ContextVar[Callable[[Any], bool] | None] = ContextVar("training_of", default=None)


class _CallContext(keras_layer.CallContext):  # type: ignore[misc]  # Keras ships no types
    """The context of one call of an outermost layer, which begins in the mode that holds where it is made."""

    def __init__(self, entry_layer: Any) -> None:
        super().__init__(entry_layer)
        training_of = _training_of.get()
        if training_of is not None:
            self.set_value("training", training_of(entry_layer))


keras_layer.CallContext = _CallContext


class Modes:
    """Says in which mode the networks among the attributes of one agent are.

    Args:
        agent: Its attributes are looked at, and what is in lists, tuples and mappings of them.
        groups: The variables that learn.
    """

    def __init__(self, agent: Any, groups: Sequence[Sequence[Any]]) -> None:
        self._agent = agent
        self._learning = {identity(variable) for group in groups for variable in group}

    def evaluating(self) -> AbstractContextManager[None]:
        """Makes a context in which every layer that is called has training=False."""
        return evaluating()

    @contextmanager
    def learning(self) -> Iterator[None]:
        """Gives networks that learn training=True, the others False."""
        with _mode(self._learns):
            yield

    @contextmanager
    def judging(self) -> Iterator[None]:
        """Gives training=False for gradients that nobody follows, also where the agent writes training=True."""
        with self.evaluating(), ExitStack() as stack:
            for layer in self._layers():
                if layer._call_has_training_arg:
                    stack.enter_context(temporary_attributes(layer, {"call": _without_training(layer.call)}))
            yield

    def normalise_over_batches(self) -> bool:
        """Whether there are layers that normalise over the batch in train mode."""
        return any(isinstance(layer, keras.layers.BatchNormalization) for layer in self._layers())

    def _learns(self, layer: Any) -> bool:
        return not layer.weights or any(identity(variable) in self._learning for variable in layer.trainable_variables)

    def _layers(self) -> list[Any]:
        layers = {id(layer): layer for network in networks_of(self._agent) for layer in network._flatten_layers()}
        return list(layers.values())


def evaluating() -> AbstractContextManager[None]:
    """Makes a context in which networks have training=False: they say what to aim at, in a loss that trains them."""
    return _mode(lambda layer: False)


@contextmanager
def _mode(training_of: Callable[[Any], bool]) -> Iterator[None]:
    token = _training_of.set(training_of)
    try:
        yield
    finally:
        _training_of.reset(token)


def _without_training(call: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *inputs, **named: call(*inputs, **{**named, "training": False})


def networks_of(agent: Any) -> Iterator[Any]:
    """Yields the networks among an agent's attributes, and in lists, tuples and mappings of them."""
    return _networks_in(vars(agent).values())


def _networks_in(values: Iterable[Any]) -> Iterator[Any]:
    for value in values:
        if isinstance(value, keras.Layer):
            yield value
        elif isinstance(value, Mapping):
            yield from _networks_in(value.values())
        elif isinstance(value, (list, tuple)):
            yield from _networks_in(value)
