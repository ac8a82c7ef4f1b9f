"""What a recording depends on besides the contents of tensors, and whose losses depend on nothing else."""

from collections.abc import Collection, Iterable
from typing import Any

import numpy as np
from torch import Tensor, nn

from note_rl.learners.pytorch.tensors import named_tensors

_PLAIN = (int, float, bool, str, type(None), np.generic)
_LOOKED_AT = (*_PLAIN, Tensor, nn.Module)
_MISSING = object()


class Guards:
    """The numbers, words, tensors and networks that an agent consists of now.

    Args:
        agent: Its attributes are looked at; numbers within containers and other objects are not.
        without: Names of attributes that may change.
    """

    def __init__(self, agent: Any, without: Collection[str]) -> None:
        self._attributes = vars(agent)
        self._class = type(agent)
        self._ignored = {*without, *agent._bookkeeping}
        self._known = {*self._attributes, *self._ignored}
        self._before = {
            name: value
            for name, value in self._attributes.items()
            if name not in self._ignored and isinstance(value, _LOOKED_AT)
        }

    def is_unchanged(self) -> bool:
        """Whether numbers and words are equal to those of then, tensors and networks the same objects."""
        now = self._attributes
        new = now.keys() - self._known
        if any(hasattr(self._class, name) for name in new):  # a new attribute hides one of the class
            return False
        return all(is_same(now.get(name, _MISSING), value) for name, value in self._before.items())


def is_same(now: Any, before: Any) -> bool:
    """Equal numbers, words and the like, or the same object."""
    return now is before or (type(now) is type(before) and isinstance(now, _PLAIN) and bool(now == before))


def parts_of(agent: Any) -> list[Any]:
    """Returns all tensors of an agent, and whether each layer of its networks is training."""
    return [*(layer.training for layer in _layers(agent)), *(tensor for _, tensor in named_tensors(agent))]


def declares_to_be_traceable(agent: Any) -> bool:
    """Whether the very class of the agent says so, and its networks are made of layers that are known here."""
    return bool(vars(type(agent)).get("traceable", False)) and all(
        type(layer).__module__.startswith(("torch.nn.modules.", "note_rl."))
        and not (layer._forward_hooks or layer._forward_pre_hooks or layer._backward_hooks)
        for layer in _layers(agent)
    )


def _layers(agent: Any) -> Iterable[nn.Module]:
    networks = [value for value in vars(agent).values() if isinstance(value, nn.Module)]
    return [layer for network in networks for layer in network.modules()]
