"""Whether target networks follow at once or by and by: found out by looking at what update_param() does."""

from collections.abc import Callable, Mapping
from typing import Protocol

import numpy as np

from note_rl.types import Array


class Weights(Protocol):
    """The weights of an agent, in the hands of somebody who puts them back."""

    def learning(self) -> list[str]:
        """Returns the names of those that learn."""

    def read(self) -> Mapping[str, Array]:
        """Returns all of them, by name."""

    def move(self) -> None:
        """Changes what learns."""


def update_copies(weights: Weights, update: Callable[[], None]) -> bool:
    """Moves what learns, has the targets updated, and sees whether they are equal to it then; twice.

    An update that counts its calls, and copies in some of them, has a lag of its own: that is no copy.

    Args:
        weights: Are changed.
        update: The agent's update_param().
    """
    learning = weights.learning()
    for _ in range(2):
        weights.move()
        before = weights.read()
        update()
        after = weights.read()
        changed = [name for name in after if name not in learning and not _same(after[name], before.get(name))]
        if not changed or not all(_is_found(name, after) for name in changed):
            return False
    return True


def _is_found(name: str, among: Mapping[str, Array]) -> bool:
    """Whether another array holds the same."""
    return any(other != name and _same(among[name], values) for other, values in among.items())


def _same(values: Array, other: Array | None) -> bool:
    return other is not None and values.shape == other.shape and np.array_equal(values, other)
