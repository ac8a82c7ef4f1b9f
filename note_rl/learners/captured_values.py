"""How values are compared that code was traced or recorded with; nothing here knows a framework."""

from dataclasses import dataclass
from typing import Any

import numpy as np

PLAIN = (int, float, complex, bool, str, bytes, type(None), np.generic)
"""Numbers, words and the like, which are compared by value."""

ABSENT = object()
"""In place of what is not there."""


def is_same(now: Any, before: Any) -> bool:
    """Equal numbers, words and the like, or the same object."""
    return now is before or (type(now) is type(before) and isinstance(now, PLAIN) and bool(now == before))


@dataclass(frozen=True, eq=False)
class SameObject:
    """Equal to itself and nothing else; held, so that its identity is not given away."""

    held: Any

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SameObject) and self.held is other.held

    def __hash__(self) -> int:
        return id(self.held)
