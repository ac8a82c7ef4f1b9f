"""Whether the layers of networks are as they were, looked at before each update block: some 2 us per layer."""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from operator import is_, itemgetter
from types import BuiltinFunctionType, FunctionType
from typing import Any

import torch
from torch import Tensor, nn

from note_rl.learners.captured_values import PLAIN, is_same
from note_rl.learners.pytorch.torch_internals import hooks_of_tensor

COMPARED = (*PLAIN, tuple, type, partial, FunctionType, BuiltinFunctionType)
"""Attributes of layers that decide what a layer does; all but the first by identity."""

_HELD = ("_parameters", "_buffers", "_modules")
_HOOKS = ("_forward_pre_hooks", "_forward_hooks", "_backward_pre_hooks", "_backward_hooks")


class Layers:
    """The behaviour of the layers of networks, as it is now.

    Their classes, numbers, words, functions and hooks, whether they train, which layers and tensors they hold; of
    tensors everything but what is in them.

    Args:
        networks: With all layers in them.
        tensors: Further ones.
    """

    def __init__(self, networks: Sequence[nn.Module], tensors: Sequence[Tensor]) -> None:
        self._layers = list({id(layer): layer for network in networks for layer in network.modules()}.values())
        self._states = [vars(layer) for layer in self._layers]
        self._names = [set(state) for state in self._states]
        self._inner = [state[name] for state in self._states for name in (*_HELD, *_HOOKS)]
        self._filled = [inner for inner in self._inner if inner]
        self._look_ups = [itemgetter(*_HELD, *_compared(state)) for state in self._states]
        held = [value for inner in self._filled for value in inner.values() if isinstance(value, Tensor)]
        self._tensors = list({id(tensor): tensor for tensor in (*held, *tensors)}.values())
        self._classes, self._kinds = list(map(type, self._layers)), list(map(_kind, self._tensors))
        self._sizes, self._values = self._sizes_now(), list(self._values_now())

    def are_unchanged(self) -> bool:
        """Whether all of it is as it was."""
        if list(map(type, self._layers)) != self._classes or list(map(_kind, self._tensors)) != self._kinds:
            return False
        if self._sizes_now() != self._sizes and not self._are_the_same_names():
            return False
        try:
            now = list(self._values_now())
        except KeyError:  # an attribute is gone
            return False
        if all(map(is_, now, self._values)):
            return True
        if not all(map(is_same, now, self._values)):
            return False
        self._values = now  # equal ones
        return True

    def _sizes_now(self) -> list[int]:
        return [*map(len, self._inner), *map(len, self._states)]

    def _values_now(self) -> Iterator[Any]:
        values = [look_up(state) for look_up, state in zip(self._look_ups, self._states, strict=True)]
        return chain(chain.from_iterable(values), chain.from_iterable([inner.values() for inner in self._filled]))

    def _are_the_same_names(self) -> bool:
        """Whether layers hold as much as before, and none of their new attributes hides one of their class."""
        sizes = self._sizes_now()
        if sizes[: len(self._inner)] != self._sizes[: len(self._inner)]:
            return False
        for layer, names in zip(self._layers, self._names, strict=True):
            if any(hasattr(type(layer), name) for name in vars(layer).keys() - names):
                return False
        self._sizes = sizes
        return True


def _compared(state: Mapping[str, Any]) -> list[str]:
    return [name for name, value in state.items() if isinstance(value, COMPARED)]


def _kind(tensor: Tensor) -> tuple[Any, ...]:
    """Returns all that kernels and autograd take into account but the numbers."""
    strides = tensor.stride() if tensor.layout is torch.strided else ()
    return tensor.requires_grad, tensor.shape, strides, tensor.dtype, tensor.device, hooks_of_tensor(tensor)
