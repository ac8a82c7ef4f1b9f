"""The numbers of an agent's layers: ranks that train together have those that a callback has set on one of them."""

from collections.abc import Iterator
from typing import Any

from note_rl.learners.base import LayerNumbers, plain_numbers
from note_rl.learners.keras.keras_internals import all_layers
from note_rl.learners.keras.modes import networks_of

_LEARNS = "trainable"
_OF_ONE_PROCESS = ("name", "built")


def numbers_of_layers(agent: Any) -> LayerNumbers:
    """See `Learner.layer_numbers`."""
    return LayerNumbers(
        {place: f"{type(layer).__module__}.{type(layer).__qualname__}" for place, layer in _places(agent)},
        {place: {**_numbers(layer), _LEARNS: bool(layer.trainable)} for place, layer in _places(agent)},
    )


def set_numbers_of_layers(agent: Any, numbers: dict[str, dict[str, Any]]) -> None:
    """See `Learner.set_layer_numbers`."""
    for place, layer in _places(agent):  # outer layers come first: what is frozen in them is frozen in all within
        for name, value in numbers.get(place, {}).items():
            setattr(layer, name, value)


def _places(agent: Any) -> Iterator[tuple[str, Any]]:
    """Yields all layers with where they are: the number of the network, and that of the layer within."""
    for index, network in enumerate(networks_of(agent)):
        for number, layer in enumerate(all_layers(network)):
            yield f"{index}/{number}", layer


def _numbers(layer: Any) -> dict[str, Any]:
    return {name: value for name, value in plain_numbers(vars(layer)).items() if name not in _OF_ONE_PROCESS}
