"""Reads of environments by a traced function; attributes that it does not read change with every step."""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from gymnasium import spaces

from note_rl.learners.captured_values import ABSENT, PLAIN
from note_rl.learners.kept_contents import contents_kept, wrapped_in

_GENERATORS = (np.random.Generator, np.random.RandomState)


@dataclass
class ReadEnvironment:
    """An environment, or one that it wraps.

    Attributes:
        env: The environment.
        title: What the reader's own code calls it.
        names: Of the attributes that were read.
    """

    env: Any
    title: str
    names: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        """Keeps what it holds, and what is held by that."""
        self._put_back = list(contents_kept([vars(self.env)]))

    def note(self, names: Collection[str]) -> None:
        """Notes that attributes were read."""
        held = vars(self.env) if "__dict__" in names else ()
        self.names |= {name for name in (*names, *held) if not name.startswith("__")}

    def read(self) -> dict[str, Any]:
        """Returns what was read, as it is now, by name."""
        return {f"{self.title}.{name}": vars(self.env).get(name, ABSENT) for name in sorted(self.names)}

    def changing(self) -> dict[str, Any]:
        """Returns what code that reads it may change: numbers and words, spaces, generators of random numbers."""
        kinds = (*PLAIN, *_GENERATORS, spaces.Space)
        return {f"{self.title}.{name}": value for name, value in vars(self.env).items() if isinstance(value, kinds)}

    def put_back(self) -> None:
        """Has it hold what it held."""
        for one in self._put_back:
            one()


def with_wrapped(env: Any, title: str) -> Iterator[ReadEnvironment]:
    """Yields an environment with those that it wraps or steps together."""
    return (ReadEnvironment(one, where) for where, one in wrapped_in(env, title))


def generators_of(space: Any) -> list[Any]:
    """Returns the random numbers by which a space draws actions; none: it is no space, or has drawn none."""
    if not isinstance(space, spaces.Space):
        return []
    return [value for value in vars(space).values() if isinstance(value, _GENERATORS)]


def apart(items: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """Returns items by name, with marks on names that others have: two environments may be held in one list."""
    found: dict[str, Any] = {}
    for name, value in items:
        while name in found:
            name += "'"
        found[name] = value
    return found
