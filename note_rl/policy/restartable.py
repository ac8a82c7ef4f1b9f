"""The part of a policy, or of its noise, that changes while it explores."""

import copy
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import suppress

from note_rl.types import Array


class Restartable(ABC):
    """Base of policies and noise processes: what they remember from one step to the next."""

    _unused: Mapping[str, Array] | None = None  # the state before any agent has explored with it

    @abstractmethod
    def get_state(self) -> dict[str, Array]:
        """The state that a checkpoint needs to go on exactly."""

    @abstractmethod
    def set_state(self, state: Mapping[str, Array]) -> None:
        """Takes over a stored state."""

    def _inner(self) -> Sequence["Restartable"]:
        """Returns those that it is made of, and whose states are parts of its own."""
        return ()

    def begin(self) -> None:
        """Forgets what it has done for another agent; called where the training of an agent begins."""
        if self._unused is None:
            with suppress(AttributeError):  # what bind() makes, as it may in a user's policy, is new by itself
                self._unused = copy.deepcopy(self.get_state())
        else:
            self.set_state(copy.deepcopy(self._unused))
        for part in self._inner():
            part.begin()
