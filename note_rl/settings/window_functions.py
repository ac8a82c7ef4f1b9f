"""Functions that say how much of a pool or rollout is kept, and what they may answer."""

import inspect
import logging
from collections.abc import Callable
from typing import Any

from note_rl.errors import say_once
from note_rl.support.value_kinds import Count, window

_log = logging.getLogger(__name__)
WindowFunction = Callable[..., int | float]


class Removal(int):
    """A number of the oldest transitions to remove, as the manuals' window functions give it.

    A plain int from such a function is the number to keep; this says by its type that it is the other one. It stays
    what it is when it is added to, multiplied or rounded down.
    """

    def __add__(self, other: int) -> "Removal":
        return _removal(int.__add__(self, other))

    def __sub__(self, other: int) -> "Removal":
        return _removal(int.__sub__(self, other))

    def __mul__(self, other: int) -> "Removal":
        return _removal(int.__mul__(self, other))

    def __floordiv__(self, other: int) -> "Removal":
        return _removal(int.__floordiv__(self, other))

    __radd__ = __add__
    __rmul__ = __mul__


def _removal(result: int) -> Removal:
    """The result of int's own method; for other types that is NotImplemented, which is handed on."""
    return Removal(result) if type(result) is int else result  # type: ignore[return-value]


def ask(function: WindowFunction, process: Any = None) -> int:
    """The number that a window function gives; it may take the number of a process (None: the whole pool).

    Returns:
        How many to keep; as a `Removal`, which is what agents' adjust_window_size() gives, how many of the oldest go.
    """
    answer = _given(function, process)
    return answer if isinstance(answer, Removal) else Count(0)(_ASKED, answer)


def kept(size: int | float | WindowFunction, capacity: int, fewest: int, stored: int = 0) -> int:
    """How many transitions of a pool a window keeps: what it says, but never less than a minibatch.

    Args:
        size: A number, a share of the capacity, or a function that is asked for either.
        capacity: Of the pool.
        fewest: In a minibatch.
        stored: Transitions that the pool holds.
    """
    answer = _given_of(size, stored) if callable(size) else size
    keep = int(answer * capacity) if isinstance(answer, float) else answer
    if keep < fewest:
        say_once(_log, f"a window leaves less than a minibatch of {fewest} transitions: a minibatch is kept")
    return max(keep, fewest)


_ASKED = "what the window function gives"


def _given_of(function: WindowFunction, stored: int) -> int | float:
    """How many to keep of those stored, or the share of the capacity."""
    answer = _given(function, None)
    if isinstance(answer, Removal):
        answer = max(stored - answer, 0)
    number: int | float = answer if answer == 0 else window(_ASKED, answer)
    return number


def _given(function: WindowFunction, process: Any) -> Any:
    return function(process) if inspect.signature(function).parameters else function()
