"""`training` for the layers of a Keras agent, without its being written: who drops units and moves moving statistics.

Acting, evaluating and judging happen with training=False, losses with training=True. Networks that do not learn, which
is what target networks are, have False in losses, too: they say what to aim at. What the agent itself writes, as in
`self.net(s, training=False)`, holds.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any

import keras

from note_rl.learners.base import temporary_attributes
from note_rl.learners.keras.keras_internals import all_layers, identity, takes_training, training_decided_by


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
        with training_decided_by(self._learns):
            yield

    @contextmanager
    def judging(self) -> Iterator[None]:
        """Gives training=False for gradients that nobody follows, also where the agent writes training=True."""
        with self.evaluating(), ExitStack() as stack:
            for layer in self._layers():
                if takes_training(layer):
                    stack.enter_context(temporary_attributes(layer, {"call": _without_training(layer.call)}))
            yield

    def normalise_over_batches(self) -> bool:
        """Whether there are layers that normalise over the batch in train mode."""
        return any(isinstance(layer, keras.layers.BatchNormalization) for layer in self._layers())

    def _learns(self, layer: Any) -> bool:
        return not layer.weights or any(identity(variable) in self._learning for variable in layer.trainable_variables)

    def _layers(self) -> list[Any]:
        layers = {id(layer): layer for network in networks_of(self._agent) for layer in all_layers(network)}
        return list(layers.values())


def evaluating() -> AbstractContextManager[None]:
    """Makes a context in which networks have training=False: they say what to aim at, in a loss that trains them."""
    return training_decided_by(lambda layer: False)


def dropping() -> AbstractContextManager[None]:
    """Makes a context in which networks have training=True: dropout within the computation of targets, as in DroQ."""
    return training_decided_by(lambda layer: True)


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
