"""The numbers of an agent's layers: ranks that train together have those that a callback has set on one of them."""

from collections.abc import Iterator
from typing import Any

from torch import nn

from note_rl.learners.base import LayerNumbers, plain_numbers
from note_rl.learners.pytorch.modes import networks_of
from note_rl.learners.pytorch.torch_internals import hooks_of

_LEARNS = "requires_grad of "


def numbers_of_layers(agent: Any) -> LayerNumbers:
    """See `Learner.layer_numbers`."""
    return LayerNumbers(
        {place: _kind(layer) for place, layer in _places(agent)},
        {place: {**plain_numbers(vars(layer)), **_learning(layer)} for place, layer in _places(agent)},
    )


def set_numbers_of_layers(agent: Any, numbers: dict[str, dict[str, Any]]) -> None:
    """See `Learner.set_layer_numbers`."""
    for place, layer in _places(agent):
        parameters = dict(layer.named_parameters(recurse=False))
        for name, value in numbers.get(place, {}).items():
            if name.startswith(_LEARNS):
                parameters[name.removeprefix(_LEARNS)].requires_grad_(value)
            else:
                setattr(layer, name, value)


def _places(agent: Any) -> Iterator[tuple[str, nn.Module]]:
    """Yields all layers with where they are: the number of the network, and the path within."""
    for index, network in enumerate(networks_of(agent)):
        for path, layer in network.named_modules():
            yield f"{index}/{path}", layer


def _kind(layer: nn.Module) -> str:
    num_hooks = sum(map(len, hooks_of(layer)))
    return f"{type(layer).__module__}.{type(layer).__qualname__} with {num_hooks} hooks"


def _learning(layer: nn.Module) -> dict[str, bool]:
    return {f"{_LEARNS}{name}": one.requires_grad for name, one in layer.named_parameters(recurse=False)}
