"""What is compared of a value that a loss reads: it is equal as long as the loss would be recorded in the same way."""

import dataclasses
import enum
import functools
import logging
import types
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from note_rl.learners.pytorch.recording.layers import PLAIN

ABSENT = object()
_LARGEST = 1_000  # numbers in an array, which are compared before each update block
_FIXED = (
    *(types.FunctionType, types.ModuleType, types.MethodDescriptorType, types.WrapperDescriptorType, type),
    *(property, classmethod, staticmethod, functools.cached_property, np.ufunc, np.dtype),
    *(torch.device, torch.dtype, torch.layout, torch.memory_format, torch.finfo, torch.iinfo),
    *(type(functools.lru_cache(len)), torch.jit.ScriptFunction, torch.Size),
    *(enum.Enum, logging.Logger, bytes, complex, range, slice, type(Ellipsis), type(NotImplemented)),
)  # what does not change within; layers and tensors are looked at by `Layers`, and kernels read tensors


@dataclasses.dataclass(frozen=True, eq=False)
class _Same:
    """Equal to itself and nothing else; held, so that its identity is not given away."""

    held: Any

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and self.held is other.held

    def __hash__(self) -> int:
        return id(self.held)


def can_change_within(value: Any) -> bool:
    """Whether the same object may have another form later."""
    return isinstance(value, (Mapping, list, tuple, np.ndarray)) or _is_dataclass(value)


def form_of(value: Any) -> Any:
    """Returns the form.

    Raises:
        TypeError: The value could change unseen.
    """
    if value is ABSENT or isinstance(value, (*_FIXED, Tensor, nn.Module)):
        return _Same(value)
    if isinstance(value, PLAIN):
        return type(value), value  # 1, 1.0 and True are equal, but not to kernels
    if isinstance(value, (dict, types.MappingProxyType)):
        return type(value), tuple((key, form_of(item)) for key, item in value.items())
    if isinstance(value, (list, tuple)):
        return type(value), tuple(map(form_of, value))
    if isinstance(value, np.ndarray) and value.size <= _LARGEST and value.dtype != object:
        return value.dtype, value.shape, value.tobytes()
    if isinstance(value, functools.partial):
        return functools.partial, form_of(value.func), form_of(value.args), form_of(value.keywords)
    if _is_dataclass(value):
        return type(value), tuple(form_of(getattr(value, one.name, ABSENT)) for one in dataclasses.fields(value))
    owner = getattr(value, "__self__", None)
    if isinstance(value, types.BuiltinFunctionType) and (owner is None or isinstance(owner, _FIXED)):
        return _Same(value)
    if isinstance(value, types.MethodType) and isinstance(owner, (*_FIXED, nn.Module)):
        return _Same(owner), _Same(value.__func__)
    raise TypeError(f"{type(value).__name__}, which could change unseen")


def _is_dataclass(value: Any) -> bool:
    return dataclasses.is_dataclass(value) and not isinstance(value, type)
