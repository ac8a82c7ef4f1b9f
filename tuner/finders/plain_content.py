"""Objects as plain data that are the same in another session, by which a study is found again.

Of functions and classes of the user's own these are their code and what they refer to, so that another environment
makes another study.
"""

import functools
import hashlib
import inspect
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import PurePath
from types import CodeType, FunctionType
from typing import Any

import numpy as np

_LIBRARIES = {"note_rl", "builtins", "keras", "torch", "tensorflow", "abc", "typing", "gymnasium", "numpy", "enum"}
_PLAIN = (bool, int, float, complex, str, bytes, np.generic)
_READ = (*_PLAIN, tuple, list, dict, set, frozenset, np.ndarray, FunctionType, type)
_DRAWN = "_np_random_seed"  # which an environment draws where none is given
_DEPTH = 20


def digest(content: bytes) -> str:
    """A short name of some content."""
    return hashlib.sha256(content).hexdigest()[:16]


def source(kind: type[Any]) -> str:
    """The code of a class and of what it inherits from outside of this package and of libraries."""
    texts = []
    for one in kind.__mro__:
        if not _is_of_a_library(one):
            try:
                texts.append(inspect.getsource(one))
            except (OSError, TypeError):  # typed into an interpreter
                methods = [own for own in vars(one).values() if isinstance(own, FunctionType)]
                texts += [one.__qualname__, *(repr(_code(method.__code__)) for method in methods)]
    return "\n".join(texts)


def shown(value: Any) -> Any:
    """A value as plain data: what objects hold instead of their addresses."""
    return _Content().of(value, _DEPTH)


class _Content:
    """Shows each object once, so that objects that know each other have an end."""

    def __init__(self) -> None:
        self._numbers: dict[int, int] = {}
        self._alive: list[Any] = []  # or another object could get the address

    def of(self, value: Any, depth: int) -> Any:
        """A value as plain data, down to this number of levels."""
        if value is None or isinstance(value, bool | int | float | str):
            return value
        if isinstance(value, _PLAIN):
            return digest(value) if isinstance(value, bytes) else repr(value)
        if id(value) in self._numbers:
            return {"again": self._numbers[id(value)]}
        self._numbers[id(value)] = len(self._numbers)
        self._alive.append(value)
        if not depth:
            return type(value).__qualname__
        if isinstance(value, Mapping):
            return {str(key): self.of(item, depth - 1) for key, item in value.items()}
        if isinstance(value, list | tuple | deque):
            return [self.of(item, depth - 1) for item in value]
        if isinstance(value, set | frozenset):
            return sorted(map(repr, value))
        if hasattr(value, "__array__") and not isinstance(value, type):
            return _array(value)
        return self._made(value, depth)

    def _made(self, value: Any, depth: int) -> Any:
        """A class, a function or another object."""
        if isinstance(value, functools.partial):
            return self.of([value.func, value.args, value.keywords], depth)
        if isinstance(value, type):
            return value.__qualname__ if _is_of_a_library(value) else self._class(value, depth)
        if isinstance(wrapped := getattr(value, "__wrapped__", None), FunctionType):  # by lru_cache
            return self.of(wrapped, depth)
        if inspect.isroutine(value):
            return self._routine(value, depth)
        if isinstance(value, PurePath):
            return str(value)
        held = dict(_attributes(value))
        return {"kind": self.of(type(value), depth - 1), "held": self.of(held, depth - 1)}

    def _class(self, kind: type[Any], depth: int) -> Any:
        read = [one for own in vars(kind).values() if isinstance(own, FunctionType) for one in _globals_of(own)]
        return {"kind": kind.__qualname__, "code": digest(source(kind).encode()), "reads": self.of(read, depth - 1)}

    def _routine(self, value: Callable[..., Any], depth: int) -> Any:
        """A function with its code, its defaults, and what it refers to."""
        plain = getattr(value, "__func__", value)
        if not isinstance(plain, FunctionType) or _is_of_a_library(plain):
            return getattr(value, "__qualname__", type(value).__qualname__)
        cells = [self.of(cell.cell_contents, depth - 1) for cell in plain.__closure__ or () if _is_filled(cell)]
        own = getattr(value, "__self__", None)
        held = [plain.__defaults__, plain.__kwdefaults__, list(_globals_of(plain)), own]
        code = digest(repr(_code(plain.__code__)).encode())
        return {"kind": plain.__qualname__, "code": code, "cells": cells, "held": self.of(held, depth - 1)}


def _array(value: Any) -> Any:
    """Shape, type and numbers of an array or a tensor, which may be one that NumPy has no type for."""
    tensor = value.detach().cpu() if hasattr(value, "detach") else value
    try:
        array = np.asarray(tensor)
    except TypeError:  # bfloat16
        array = np.asarray(tensor.float())
    numbers = repr(array.tolist()).encode() if array.dtype == object else array.tobytes()
    return [list(array.shape), str(getattr(value, "dtype", array.dtype)), digest(numbers)]


def _attributes(value: Any) -> Iterator[tuple[str, Any]]:
    """Attributes of an object; of private ones only numbers and texts, as the rest may belong to what it does now."""
    slots = [name for kind in type(value).__mro__ for name in _listed(getattr(kind, "__slots__", ()))]
    held = {name: getattr(value, name) for name in slots if hasattr(value, name)}
    for name, item in {**held, **getattr(value, "__dict__", {})}.items():
        if not name.startswith("_") or (isinstance(item, _PLAIN) and name != _DRAWN):
            yield name, item


def _listed(names: str | Sequence[str]) -> Sequence[str]:
    return (names,) if isinstance(names, str) else tuple(names)


def _globals_of(function: FunctionType) -> Iterator[Any]:
    """Values, functions and classes that it may read from its module, inner functions included."""
    for code in _codes(function.__code__):
        named = (function.__globals__.get(name) for name in code.co_names)
        yield from (found for found in named if isinstance(found, _READ))


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from _codes(inner)


def _code(code: CodeType) -> Any:
    """Instructions and constants, those of inner functions included; neither line numbers nor the file."""
    return [(one.co_code, one.co_names, one.co_varnames, list(map(_constant, one.co_consts))) for one in _codes(code)]


def _constant(value: Any) -> str:
    if isinstance(value, CodeType):
        return value.co_name
    return repr(sorted(map(repr, value))) if isinstance(value, frozenset) else repr(value)


def _is_filled(cell: Any) -> bool:
    try:
        cell.cell_contents  # noqa: B018
    except ValueError:
        return False
    return True


def _is_of_a_library(value: Any) -> bool:
    return str(value.__module__).partition(".")[0] in _LIBRARIES
