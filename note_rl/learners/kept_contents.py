"""Copies of the contents of containers and environments, to be put back after a loss was called for inspection only."""

import random
import types
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import chain
from operator import is_
from typing import Any

import numpy as np

PutBack = Callable[[], object]
_FIXED = (int, float, complex, str, bytes, type(None), type)
_LARGEST = 100_000  # numbers in an array that is copied


def is_environment(value: Any) -> bool:
    """Whether this is an environment, of whatever package, rather than what makes one."""
    steps = hasattr(type(value), "reset") and hasattr(type(value), "step")
    return steps and not isinstance(value, type) and hasattr(value, "__dict__")


def wrapped_in(env: Any, title: str = "") -> Iterator[tuple[str, Any]]:
    """Yields an environment and those that it wraps or steps together, each with how it is reached."""
    waiting, seen = [(title, env)], set()
    while waiting:
        title, one = waiting.pop()
        if id(one) not in seen and is_environment(one):
            seen.add(id(one))
            yield title, one
            several = vars(one).get("envs", ())
            waiting.append((f"{title}.env", vars(one).get("env")))
            if isinstance(several, list | tuple):
                waiting += [(f"{title}.envs[{index}]", inner) for index, inner in enumerate(several)]


def contents_kept(
    values: Iterable[Any], more: Callable[[Any], Iterable[PutBack]] = lambda value: ()
) -> Iterator[PutBack]:
    """Yields what puts back what containers, arrays and generators of random numbers hold.

    Args:
        values: Where the search begins; it goes on through containers, and not into other objects.
        more: Yields the same of further kinds.
    """
    waiting, seen = list(values), set()
    while waiting:
        value = waiting.pop()
        if id(value) in seen:
            continue
        seen.add(id(value))
        if isinstance(value, types.SimpleNamespace):
            waiting.append(vars(value))
        elif isinstance(value, dict):
            waiting += filter(_may_change, value.values())
        elif isinstance(value, list | tuple | deque):
            waiting += filter(_may_change, value)
        yield from _content_of(value)
        yield from more(value)


def environment_kept(env: Any) -> Iterator[PutBack]:
    """Yields what puts back the attributes of an environment and of those that it wraps, and what these hold."""
    for _, one in wrapped_in(env):
        yield from contents_kept([vars(one)])


def _may_change(value: Any) -> bool:
    return not isinstance(value, _FIXED)


def _content_of(value: Any) -> Iterator[PutBack]:
    """Yields what puts back one of them."""
    if isinstance(value, dict):
        yield partial(_refill, value, value.update, dict(value))
    elif isinstance(value, set):
        yield partial(_refill, value, value.update, set(value))
    elif isinstance(value, list | deque):
        yield partial(_refill, value, value.extend, list(value))
    elif isinstance(value, np.ndarray) and value.size <= _LARGEST and value.flags.writeable:
        yield partial(np.copyto, value, value.copy())
    elif isinstance(value, np.random.Generator):
        yield partial(setattr, value.bit_generator, "state", value.bit_generator.state)
    elif isinstance(value, np.random.BitGenerator):
        yield partial(setattr, value, "state", value.state)
    elif isinstance(value, np.random.RandomState):
        yield partial(value.set_state, value.get_state(legacy=False))
    elif isinstance(value, random.Random):
        yield partial(value.setstate, value.getstate())


def _refill(container: Any, fill: Callable[[Any], None], content: Any) -> None:
    if len(container) == len(content) and all(map(is_, _held(container), _held(content))):
        return
    container.clear()
    fill(content)


def _held(container: Any) -> Iterable[Any]:
    """Keys and values, or elements."""
    return chain(container, container.values()) if isinstance(container, dict) else container
