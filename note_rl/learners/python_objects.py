"""Objects of Python's own library: which of them change within, and what of that can be compared."""

import array
import datetime
import decimal
import enum
import fractions
import functools
import itertools
import logging
import operator
import pathlib
import re
import struct
import sys
import threading
import types
import uuid
import weakref
from collections.abc import Callable, ItemsView, Iterable, Iterator, KeysView, ValuesView
from contextlib import suppress
from typing import Any

from note_rl.learners.comparing import ABSENT

_FIXED = (
    *(type, types.ModuleType, types.CodeType, types.GenericAlias, types.UnionType),
    types.MethodWrapperType,
    *(operator.itemgetter, operator.attrgetter, operator.methodcaller, enum.Enum, range, slice, re.Pattern, re.Match),
    *(datetime.date, datetime.time, datetime.timedelta, datetime.tzinfo, decimal.Decimal, fractions.Fraction),
    *(pathlib.PurePath, uuid.UUID, logging.Logger, threading.Thread, type(threading.Lock()), type(threading.RLock())),
    *(type(Ellipsis), type(NotImplemented), weakref.ref, struct.Struct),
)
"""What does not change within, or decides nothing; functions are looked into elsewhere."""

_CACHES = type(functools.lru_cache(len))


def contents_of(value: Any) -> Callable[[], list[Any]] | None:
    """Returns what gives all that an object of Python's library holds now; None: it does not change within.

    Raises:
        TypeError: It changes unseen, such as an iterator, which is used up, or a queue in C.
    """
    kind = type(value)
    is_descriptor = hasattr(kind, "__get__") and not isinstance(value, _CACHES)
    if kind is object or is_descriptor or isinstance(value, _FIXED) or kind.__module__ in ("_abc", "typing"):
        return None
    if isinstance(value, bytearray | array.array | memoryview):
        return lambda: [bytes(value)]
    if isinstance(value, KeysView | ItemsView | ValuesView):
        return lambda: list(value)
    if isinstance(value, _CACHES):
        return lambda: [value.__wrapped__, value.cache_info().misses, value.cache_info().currsize]
    if isinstance(value, types.BuiltinFunctionType):
        return lambda: [value.__self__]
    if is_used_up(value):
        raise TypeError(f"{kind.__name__}, which gives another answer each time")
    if hasattr(value, "__dict__"):
        return lambda: [*vars(value).values(), *vars(value)]
    slots = [name for one in kind.__mro__ for name in vars(one).get("__slots__", ())]
    if slots:
        return lambda: [getattr(value, name, ABSENT) for name in slots]
    raise TypeError(f"{kind.__name__}, which changes unseen")


def is_used_up(value: Any) -> bool:
    """Whether something is an iterator of Python's library: a generator, a count, a file and the like."""
    return hasattr(type(value), "__next__") or isinstance(value, itertools.count)


def iterator_named_by(owner: Any, methods: Iterable[str]) -> str | None:
    """Returns the name of an iterator that the code of some methods names, or that of functions that it names.

    It has to be known before they are called: what is taken from a generator cannot be put back.
    """
    waiting = [function for name in methods if (function := _function(getattr(type(owner), name, None))) is not None]
    seen: set[int] = set()
    while waiting:
        function = waiting.pop()
        if id(function) in seen:
            continue
        seen.add(id(function))
        for name, value in _named_by(function, owner):
            held = [value, *(value.values() if isinstance(value, dict) else value if isinstance(value, list) else ())]
            if any(not isinstance(one, type) and _is_of_python(type(one)) and is_used_up(one) for one in held):
                return name
            if (called := _function(value)) is not None and not _is_of_python(called):
                waiting.append(called)
    return None


def _named_by(function: types.FunctionType, owner: Any) -> Iterator[tuple[str, Any]]:
    code = function.__code__
    for name in names_in(code):
        if name in vars(owner):
            yield f"self.{name}", vars(owner)[name]
        elif hasattr(type(owner), name):
            yield f"{type(owner).__name__}.{name}", getattr(type(owner), name)
        if name in function.__globals__:
            yield f"global {name}", function.__globals__[name]
    for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
        with suppress(ValueError):  # it holds nothing yet
            yield name, cell.cell_contents


def names_in(code: types.CodeType) -> Iterator[str]:
    """Yields the names of globals and attributes in code, and in that of functions within it."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from names_in(constant)


def _function(value: Any) -> types.FunctionType | None:
    value = getattr(value, "__func__", value.fget if isinstance(value, property) else value)
    return value if isinstance(value, types.FunctionType) else None


def _is_of_python(value: Any) -> bool:
    return str(value.__module__).partition(".")[0] in sys.stdlib_module_names and value.__module__ != "__main__"
