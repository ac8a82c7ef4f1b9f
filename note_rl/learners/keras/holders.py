"""Holders of values: dictionaries, lists, arrays, objects, layers, classes, and functions by the names they use."""

import argparse
import copy
import functools
import random
import sys
import types
from collections import deque
from collections.abc import Callable, Mapping, MutableMapping, MutableSequence, MutableSet, Sequence
from dataclasses import dataclass
from itertools import repeat
from operator import is_
from typing import Any

import keras
import numpy as np
from gymnasium import spaces

from note_rl.learners.captured_values import ABSENT, PLAIN, is_same
from note_rl.learners.keras.environment_reads import generators_of
from note_rl.learners.keras.keras_internals import has_sublayers
from note_rl.learners.python_objects import contents_of, names_in

MOST_BYTES = 2**24  # of an array that is compared with a copy: 26 us for 256 KiB, 5 ms for as much as this
_EXPLORING = ("note_rl.policy", "note_rl.settings.schedules")
_FRAMEWORKS = {"keras", "tensorflow", "numpy", "torch", "gymnasium", "note_rl"}
_LIBRARIES = {*_FRAMEWORKS, *sys.stdlib_module_names} - {"__main__"}
_NAMESPACES = (types.SimpleNamespace, argparse.Namespace)
_OF_KERAS = (
    *(keras.Regularizer, keras.constraints.Constraint, keras.Initializer, keras.losses.Loss),
    keras.optimizers.schedules.LearningRateSchedule,
)
"""Parts of layers and optimizers that have numbers."""

_DECIDING = ("_trainable", "_dtype_policy", "autocast", "activity_regularizer")
"""Attributes that Keras gives every layer and that may be set later."""


@functools.cache
def _of_every_layer() -> frozenset[str]:
    """Attributes that Keras gives every layer. Made when it is asked for: a layer starts a thread of TensorFlow's."""
    return frozenset({*vars(keras.layers.Layer()), *vars(keras.Model())})


@dataclass(frozen=True)
class SharedGenerator:
    """The random numbers that a module shares among all who draw from it."""

    module: Any


@dataclass
class Holder:
    """Something that holds others, and what it held when it was looked at.

    Attributes:
        keys: Names of what it holds, as far as that is looked at further; `read` may give more, such as its length.
        read: Gives what it holds now.
        write: Puts back what it held; None: that cannot be done.
        by_contents: Whether another one that holds the same is as good.
    """

    keys: list[Any]
    read: Callable[[], list[Any]]
    write: Callable[[list[Any]], None] | None = None
    by_contents: bool = False

    def __post_init__(self) -> None:
        """Looks."""
        self.held = self.read()

    def is_held(self) -> bool:
        """Whether it holds the same objects, or equal numbers and words."""
        now = self.read()
        return len(now) == len(self.held) and (all(map(is_, now, self.held)) or all(map(is_same, now, self.held)))

    def put_back(self) -> None:
        """Has it hold what it held."""
        if self.write is not None and not self.is_held():
            self.write(self.held)


def holder_of(value: Any) -> Holder | None:
    """Returns what looks into a value; None: it counts by its identity, as most of what is of a library does.

    Raises:
        TypeError: It can change unseen.
    """
    if isinstance(value, Mapping):
        return _of_mapping(value)
    if isinstance(value, list | tuple | deque):
        write = functools.partial(_refill, value) if isinstance(value, MutableSequence) else None
        return Holder(list(range(len(value))), lambda: list(value), write, by_contents=True)
    if isinstance(value, set | frozenset):
        write = functools.partial(_refill_set, value) if isinstance(value, MutableSet) else None
        return Holder(list(range(len(value))), lambda: sorted(value, key=repr), write, by_contents=True)
    if isinstance(value, np.ndarray):
        return _of_array(value)
    if isinstance(value, SharedGenerator):
        return _of_generator(value.module)
    if isinstance(value, np.random.Generator | np.random.RandomState | np.random.BitGenerator | random.Random):
        return _of_generator(value)
    if isinstance(value, keras.Layer):
        return _of_attributes(value, _names_of_layer(value))
    if isinstance(value, _OF_KERAS):
        return _of_attributes(value, list(vars(value)))
    if isinstance(value, spaces.Space):
        return _of_attributes(value, _names_of_space(value))
    return _of_code(value) or _of_object(value)


def _names_of_layer(layer: Any) -> list[str]:
    """Names that decide about a layer: its numbers and its parts, and none of Keras's own accounts."""
    known = _of_every_layer()
    names = [name for name in vars(layer) if name not in known and not name.startswith("_self_")]
    if is_of_a_library(type(layer)) or isinstance(layer, keras.Sequential):
        names = [name for name in names if not name.startswith("_")]
    return [*names, *_DECIDING, *["_layers"] * has_sublayers(layer)]


def _names_of_space(space: Any) -> list[str]:
    """All but the random numbers by which it draws, and what it works out when it is first asked for."""
    left_out = {*map(id, generators_of(space)), *([id(None)] if is_of_a_library(type(space)) else [])}
    return [name for name, value in vars(space).items() if id(value) not in left_out]


def _of_mapping(value: Mapping[Any, Any]) -> Holder:
    def write(held: list[Any]) -> None:
        assert isinstance(value, MutableMapping)
        num = len(held) // 2
        value.clear()
        value.update(zip(held[num:], held[:num], strict=True))

    keys = [str(key) for key in value]
    read = lambda: [*value.values(), *value]  # noqa: E731
    return Holder(keys, read, write if isinstance(value, MutableMapping) else None, by_contents=True)


def _refill(value: Any, held: list[Any]) -> None:
    value.clear()
    value.extend(held)


def _refill_set(value: Any, held: list[Any]) -> None:
    value.clear()
    value.update(held)


def _of_array(array: Any) -> Holder | None:
    """By a copy of its bytes, unless nobody can write into it."""
    if array.dtype.hasobject:
        return Holder([str(index) for index in range(array.size)], lambda: [*array.flat, str(array.shape)])
    if _is_frozen(array):
        return None
    if array.nbytes > MOST_BYTES:
        raise TypeError(
            f"an array of more than {MOST_BYTES:,} bytes, which is too much to be compared: "
            "array.flags.writeable = False says that it stays as it is"
        )

    def write(held: list[Any]) -> None:
        array[...] = np.frombuffer(held[2], array.dtype).reshape(array.shape)

    read = lambda: [array.dtype.str, str(array.shape), array.tobytes()]  # noqa: E731
    return Holder(["dtype", "shape", "bytes"], read, write if array.flags.writeable else None, by_contents=True)


def _is_frozen(array: Any) -> bool:
    """Whether an array and those that it is a view of are marked as not to be written into."""
    while isinstance(array, np.ndarray) and not array.flags.writeable:
        array = array.base
    return array is None or isinstance(array, bytes)


def _state_of_random(generator: Any) -> Any:
    """Returns the state of a generator of NumPy or Python, or of those that either shares among all, as its module."""
    if isinstance(generator, np.random.Generator):
        return generator.bit_generator.state
    if isinstance(generator, np.random.BitGenerator):
        return generator.state
    return generator.getstate() if hasattr(generator, "getstate") else generator.get_state()


def _of_generator(value: Any) -> Holder:
    """Of random numbers: by its state."""
    before = copy.deepcopy(_state_of_random(value))

    def write(held: list[Any]) -> None:
        if isinstance(value, np.random.Generator):
            value.bit_generator.state = before
        elif isinstance(value, np.random.BitGenerator):
            value.state = before
        elif hasattr(value, "setstate"):
            value.setstate(before)
        else:
            value.set_state(before)

    def read() -> list[Any]:
        return [hash(_hashable(_state_of_random(value)))]

    return Holder(["state"], read, write)


def _hashable(state: Any) -> Any:
    if isinstance(state, Mapping):
        return tuple(map(_hashable, state.values()))
    if isinstance(state, np.ndarray):
        return state.tobytes()
    return tuple(map(_hashable, state)) if isinstance(state, tuple) and len(state) < 100 else state


def _of_attributes(value: Any, names: list[str]) -> Holder:
    attributes = vars(value)

    known = set(attributes)

    def write(held: list[Any]) -> None:
        attributes.update((name, one) for name, one in zip(names, held, strict=False) if one is not ABSENT)
        for name in [name for name, one in attributes.items() if name not in known and isinstance(one, PLAIN)]:
            del attributes[name]

    def read() -> list[Any]:
        return [*map(attributes.get, names, repeat(ABSENT)), type(value), len(attributes)]

    return Holder([*names, "class"], read, write)


def _of_object(value: Any) -> Holder | None:
    if is_of_a_library(type(value)) and not isinstance(value, _NAMESPACES):
        return _of_library(value)
    if hasattr(value, "__dict__"):
        return _of_attributes(value, list(vars(value)))
    slots = [name for kind in type(value).__mro__ for name in getattr(kind, "__slots__", ())]

    def write(held: list[Any]) -> None:
        for name, one in zip(slots, held, strict=False):
            object.__setattr__(value, name, one)

    return Holder(slots, lambda: [getattr(value, name, ABSENT) for name in slots], write)


def _of_library(value: Any) -> Holder | None:
    """Looks into objects of Python's own library; those of others count by their identity."""
    if type(value).__module__.startswith(_EXPLORING):  # whose numbers are anybody's to set
        return _of_attributes(value, list(vars(value)))
    if type(value).__module__.partition(".")[0] in _FRAMEWORKS:
        return None
    read = contents_of(value)
    if read is None:
        return None
    write = functools.partial(_refill_bytes, value) if isinstance(value, bytearray) else None
    return Holder([str(index) for index in range(len(read()))], read, write)


def _refill_bytes(value: bytearray, held: list[Any]) -> None:
    value[:] = held[0]


def _of_code(value: Any) -> Holder | None:
    """Looks into functions, classes and the like."""
    if isinstance(value, functools.partial):
        return Holder(["func", "args", "keywords"], lambda: [value.func, value.args, value.keywords])
    if isinstance(value, types.MethodType):
        return Holder(["self", "func"], lambda: [value.__self__, value.__func__])
    if isinstance(value, staticmethod | classmethod):
        return Holder(["func"], lambda: [value.__func__])
    if isinstance(value, property):
        return Holder(["func"], lambda: [value.fget])
    if is_of_a_library(value):
        return None
    if isinstance(value, type):
        attributes = vars(value)
        names = [name for name in attributes if name == "__call__" or not name.startswith("__")]
        read = lambda: [*(attributes.get(name, ABSENT) for name in names), value.__bases__, len(attributes)]  # noqa: E731
        return Holder([*names, "bases"], read, functools.partial(_set_of_class, value, names))
    return _of_function(value) if isinstance(value, types.FunctionType) else None


def _set_of_class(kind: type, names: Sequence[str], held: Sequence[Any]) -> None:
    for name, one in zip(names, held, strict=False):
        if one is not vars(kind).get(name, ABSENT):
            setattr(kind, name, one)


def _of_function(function: types.FunctionType) -> Holder:
    """By the globals, the attributes of modules and the enclosed variables that its code names, and its defaults."""
    known, names = function.__globals__, list(dict.fromkeys(names_in(function.__code__)))
    places = [(known, name) for name in names if name in known]
    for module in [known[name] for _, name in places]:
        if isinstance(module, types.ModuleType) and not is_of_a_library(module):
            places += [(vars(module), name) for name in names if name in vars(module)]
    cells = function.__closure__ or ()

    def write(held: list[Any]) -> None:
        for (place, name), one in zip(places, held, strict=False):
            place[name] = one
        for cell, one in zip(cells, held[len(places) :], strict=False):
            cell.cell_contents = one

    own = list(vars(function))
    keys = [*(f"global {name}" for _, name in places), *function.__code__.co_freevars, "defaults", "keywords", *own]
    return Holder(
        keys,
        lambda: [
            *(place.get(name, ABSENT) for place, name in places),
            *map(_enclosed, cells),
            function.__defaults__,
            function.__kwdefaults__,
            *(vars(function).get(name, ABSENT) for name in own),
            function.__code__,
        ],
        write,
    )


def _enclosed(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # nothing yet
        return ABSENT


def is_of_a_library(value: Any) -> bool:
    """Whether a function, a class or a module is of TensorFlow, Keras, NumPy, Python or this package."""
    module = value.__name__ if isinstance(value, types.ModuleType) else getattr(value, "__module__", None)
    return module is None or str(module).partition(".")[0] in _LIBRARIES
