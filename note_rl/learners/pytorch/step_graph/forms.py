"""The form of a value that a loss reads: it is equal as long as the loss would be recorded in the same way."""

import dataclasses
import functools
import types
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from note_rl.learners.captured_values import ABSENT, PLAIN, SameObject
from note_rl.learners.python_objects import is_fixed

_LARGEST = 1_000  # numbers in an array, which are compared before each update block
_FIXED = (
    *(property, classmethod, staticmethod, functools.cached_property, np.ufunc, np.dtype),
    *(torch.device, torch.dtype, torch.layout, torch.memory_format, torch.finfo, torch.iinfo),
    *(torch.jit.ScriptFunction, torch.Size),
)  # what does not change within; layers and tensors are looked at by `Layers`, and kernels read tensors


def can_change_within(value: Any) -> bool:
    """Whether the same object may have another form later."""
    kinds = (Mapping, list, tuple, np.ndarray, functools.partial, types.FunctionType)
    return isinstance(value, kinds) or _is_dataclass(value)


def identities_of(value: Any) -> list[Any] | None:
    """Returns what a flat list, or a function, consists of; None: its form alone tells whether it is as it was."""
    if isinstance(value, types.FunctionType):
        keywords, own = value.__kwdefaults__ or {}, vars(value)
        return [value.__code__, value.__defaults__, *keywords.values(), *own.values()]
    if isinstance(value, (list, tuple)) and not any(map(can_change_within, value)):
        return list(value)
    return None


def form_of(value: Any) -> Any:
    """Returns the form.

    Raises:
        TypeError: The value could change unseen.
    """
    if _is_fixed(value) or isinstance(value, (Tensor, nn.Module)):
        return SameObject(value)
    if isinstance(value, PLAIN):
        return type(value), value  # 1, 1.0 and True are equal, but not to kernels
    if isinstance(value, (dict, types.MappingProxyType)):
        return type(value), tuple((key, form_of(item)) for key, item in value.items())
    if isinstance(value, (list, tuple)):
        return type(value), tuple(map(form_of, value))
    if isinstance(value, np.ndarray) and value.size <= _LARGEST and value.dtype != object:
        return value.dtype, value.shape, value.tobytes()
    if _is_dataclass(value):
        return type(value), tuple(form_of(getattr(value, one.name, ABSENT)) for one in dataclasses.fields(value))
    return _form_of_code(value)


def _form_of_code(value: Any) -> Any:
    """Returns that of functions, methods and the like."""
    if isinstance(value, types.FunctionType):
        return SameObject(value), tuple(map(SameObject, identities_of(value) or ()))
    if isinstance(value, functools.partial):
        return functools.partial, form_of(value.func), form_of(value.args), form_of(value.keywords)
    if isinstance(value, types.BuiltinFunctionType) and (value.__self__ is None or _is_fixed(value.__self__)):
        return SameObject(value)
    if isinstance(value, types.MethodType) and (isinstance(value.__self__, nn.Module) or _is_fixed(value.__self__)):
        return SameObject(value.__self__), SameObject(value.__func__)
    raise TypeError(f"{type(value).__name__}, which could change unseen")


def _is_fixed(value: Any) -> bool:
    return is_fixed(value) or isinstance(value, _FIXED)


def _is_dataclass(value: Any) -> bool:
    return dataclasses.is_dataclass(value) and not isinstance(value, type)
