"""What a traced function reads of environments, which change with every step in what it does not read."""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from gymnasium import spaces

from note_rl.learners.captured_values import ABSENT, PLAIN

_GENERATORS = (np.random.Generator, np.random.RandomState)


def is_environment(value: Any) -> bool:
    """Whether this is an environment, of whatever package, rather than what makes one."""
    steps = hasattr(type(value), "reset") and hasattr(type(value), "step")
    return steps and not isinstance(value, type) and hasattr(value, "__dict__")


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
        """Keeps what it holds."""
        self._before = dict(vars(self.env))

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
        vars(self.env).clear()
        vars(self.env).update(self._before)


def with_wrapped(env: Any, title: str) -> Iterator[ReadEnvironment]:
    """Yields an environment with those that it wraps or steps together."""
    waiting, seen = [(title, env)], set()
    while waiting:
        title, one = waiting.pop()
        if id(one) not in seen and is_environment(one):
            seen.add(id(one))
            yield ReadEnvironment(one, title)
            several = vars(one).get("envs", ())
            waiting.append((f"{title}.env", vars(one).get("env")))
            if isinstance(several, list | tuple):
                waiting += [(f"{title}.envs[{index}]", inner) for index, inner in enumerate(several)]


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
