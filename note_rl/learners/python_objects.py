"""Objects of Python's own library: which of them change within, and what of that can be compared."""

import array
import contextvars
import datetime
import decimal
import dis
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

from note_rl.learners.captured_values import ABSENT

_FIXED = (
    *(types.CodeType, types.GenericAlias, types.UnionType),
    *(types.MethodWrapperType, types.MethodDescriptorType, types.WrapperDescriptorType),
    *(operator.itemgetter, operator.attrgetter, operator.methodcaller, range, slice, re.Pattern, re.Match),
    *(datetime.date, datetime.time, datetime.timedelta, datetime.tzinfo, decimal.Decimal, fractions.Fraction),
    *(pathlib.PurePath, uuid.UUID, threading.Thread, type(threading.Lock()), type(threading.RLock())),
    *(type(Ellipsis), type(NotImplemented), struct.Struct),
)
"""Types whose contents do not change, or decide nothing; functions are looked into elsewhere."""

_FIXED_WITH_SUBCLASSES = (type, types.ModuleType, enum.Enum, logging.Logger)
"""The same, also where the class is the reader's own; objects of other own classes have attributes that may change."""

_CACHES = type(functools.lru_cache(len))


def _in_this_context(variable: contextvars.ContextVar[Any]) -> list[Any]:
    try:
        return [variable.get()]
    except LookupError:  # neither set nor with a default
        return [ABSENT]


_READ: tuple[tuple[Any, Callable[[Any], list[Any]]], ...] = (
    (bytearray | array.array | memoryview, lambda value: [bytes(value)]),
    (KeysView | ItemsView | ValuesView, list),
    (_CACHES, lambda value: [value.__wrapped__, value.cache_info().misses, value.cache_info().currsize]),
    (types.BuiltinFunctionType, lambda value: [value.__self__]),
    (weakref.ref, lambda value: [value()]),
    (contextvars.ContextVar, _in_this_context),
)
"""By types, a function that gives all that such an object holds."""


def contents_of(value: Any) -> Callable[[], list[Any]] | None:
    """Returns what gives all that an object of Python's library holds now; None: it does not change within.

    Raises:
        TypeError: It changes unseen, such as an iterator, which is used up, or a queue in C.
    """
    kind = type(value)
    is_descriptor = hasattr(kind, "__get__") and not isinstance(value, _CACHES)
    if is_fixed(value) or is_descriptor or kind.__module__ in ("_abc", "typing"):
        return None
    for kinds, read in _READ:
        if isinstance(value, kinds):
            return functools.partial(read, value)
    if is_used_up(value):
        raise TypeError(f"{kind.__name__}, which gives another answer each time")
    if hasattr(value, "__dict__"):
        return lambda: [*vars(value).values(), *vars(value)]
    slots = [name for one in kind.__mro__ for name in vars(one).get("__slots__", ())]
    if slots:
        return lambda: [getattr(value, name, ABSENT) for name in slots]
    raise TypeError(f"{kind.__name__}, which changes unseen")


def is_fixed(value: Any) -> bool:
    """Whether an object does not change within, as those of some classes of Python's library, and marks."""
    kind = type(value)
    is_mark = kind is object or kind.__module__ == "dataclasses"
    return is_mark or isinstance(value, _FIXED_WITH_SUBCLASSES) or (isinstance(value, _FIXED) and _is_of_python(kind))


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
            of_dict = dict.values(value) if isinstance(value, dict) else ()
            held = [value, *of_dict, *(value if isinstance(value, list) else ())]
            if any(not isinstance(one, type) and _is_of_python(type(one)) and is_used_up(one) for one in held):
                return name
            if (called := _function(value)) is not None and not _is_of_python(called):
                waiting.append(called)
    return None


def _named_by(function: types.FunctionType, owner: Any) -> Iterator[tuple[str, Any]]:
    code = function.__code__
    for name in _attributes_in(code):
        if name in vars(owner):
            yield f"self.{name}", vars(owner)[name]
        elif hasattr(type(owner), name):
            yield f"{type(owner).__name__}.{name}", getattr(type(owner), name)
    for name in names_in(code):
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


def _attributes_in(code: types.CodeType) -> Iterator[str]:
    """Yields the names of attributes in code but for those of globals: `tf.math.log` is not the owner's `log`."""
    of_global = False
    for call in dis.get_instructions(code):
        if call.opname in ("LOAD_ATTR", "LOAD_METHOD"):
            if not of_global:
                yield call.argval
        else:
            of_global = call.opname in ("LOAD_GLOBAL", "LOAD_NAME")
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _attributes_in(constant)


def _function(value: Any) -> types.FunctionType | None:
    if isinstance(value, types.MethodType | staticmethod | classmethod):
        value = value.__func__
    elif isinstance(value, property):
        value = value.fget
    return value if isinstance(value, types.FunctionType) else None


def _is_of_python(value: Any) -> bool:
    return str(value.__module__).partition(".")[0] in sys.stdlib_module_names and value.__module__ != "__main__"
