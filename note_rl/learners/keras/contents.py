"""Everything that a traced function can reach from some values, and whether it is as it was.

Numbers and words are compared wherever they are held: in dictionaries, lists, small arrays, attributes of objects and
layers, and the globals and enclosed variables that functions name. What belongs to a library counts by its identity,
and so do environments.
"""

from collections.abc import Callable, Collection, Mapping
from types import FunctionType
from typing import Any

from gymnasium import Space

from note_rl.learners.captured_values import ABSENT, PLAIN, SameObject
from note_rl.learners.kept_contents import is_environment
from note_rl.learners.keras.holders import Holder, holder_of, is_of_a_library

_MOST_HOLDERS = 2000
Path = tuple[Any, ...]


class Contents:
    """Everything that can be reached from some values, as it is now.

    Args:
        roots: Gives these values, by name.
        closed: Objects that are not looked into.

    Attributes:
        unwatched: What can change unseen, or is too large to be looked into, for people.
        environments: Those that were found, with what people call them; they are not looked into.
        spaces: Those that were found, likewise; what they draw from is not looked at.
    """

    def __init__(self, roots: Callable[[], Mapping[str, Any]], closed: Collection[Any] = ()) -> None:
        self._roots = roots
        self._closed = closed
        self._holders: list[Holder] = []
        self._seen = {id(one): one for one in closed}
        self._values: dict[Path, Any] = {}
        self.unwatched: list[str] = []
        self.environments: list[tuple[str, Any]] = []
        self.spaces: list[tuple[str, Any]] = []
        now = roots()
        self._of_roots = Holder([], lambda: list(roots().values()))
        for name, value in now.items():
            self._add((name,), value)

    @property
    def has_own_code(self) -> bool:
        """Whether some of it is a function, a class or an object of a class that is of no library."""
        closed = set(map(id, self._closed))
        found = [value for identity, value in self._seen.items() if identity not in closed]
        return not all(is_of_a_library(one if isinstance(one, type | FunctionType) else type(one)) for one in found)

    def is_held(self) -> bool:
        """Whether nothing can have changed, as all is the same objects and holds the same; quick."""
        return self._of_roots.is_held() and all(holder.is_held() for holder in self._holders)

    def now(self) -> "Contents":
        """Returns what there is at this moment."""
        return Contents(self._roots, self._closed)

    def differences(self, now: "Contents") -> dict[str, Any]:
        """Returns what has changed, come or gone, by the name of its root, or of a global: objects as they are now."""
        paths = {**self._values, **now._values}
        changed = [path for path in paths if self._values.get(path, ABSENT) != now._values.get(path, ABSENT)]
        return {_name(path): getattr(now._values.get(path), "held", None) for path in changed}

    def put_back(self) -> None:
        """Has all that holds others hold what it held."""
        for holder in self._holders:
            holder.put_back()

    def _add(self, path: Path, value: Any) -> None:
        if isinstance(value, PLAIN):
            self._values[path] = (type(value), value)  # 1, 1.0 and True are equal, but not in a graph
            return
        holder = self._looked_into(path, value)
        if holder is None:
            self._values[path] = SameObject(value)
            return
        self._values[path] = (type(value), tuple(holder.keys)) if holder.by_contents else SameObject(value)
        self._seen[id(value)] = value
        self._holders.append(holder)
        for key, part in zip(holder.keys, holder.held, strict=False):
            self._add((*path, key), part)

    def _looked_into(self, path: Path, value: Any) -> Holder | None:
        """Returns what looks into a value; None: it is known already, or counts by its identity, or cannot be."""
        if id(value) in self._seen:
            return None
        if is_environment(value):
            self._seen[id(value)] = value
            self.environments.append((_name(path), value))
            return None
        if isinstance(value, Space):
            self.spaces.append((_name(path), value))
        try:
            holder = holder_of(value)
        except TypeError as error:
            self.unwatched.append(f"{_name(path)}: {error}")
            return None
        if holder is not None and len(self._holders) >= _MOST_HOLDERS:
            self.unwatched.append(f"{_name(path)}, which holds one of more than {_MOST_HOLDERS:,} objects")
            return None
        return holder


def _name(path: Path) -> str:
    """Returns how people call what changes: a global, or an attribute."""
    return next((key for key in path if isinstance(key, str) and key.startswith("global ")), str(path[0]))
