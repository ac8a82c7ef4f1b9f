"""A ring of transitions in plain NumPy arrays."""

from collections.abc import Mapping

import numpy as np

from note_rl.errors import CheckpointError
from note_rl.types import Array, IntArray, Steps


class Ring:
    """Keeps the newest `capacity` transitions; writing over the oldest costs O(N) for N new ones.

    Slots are numbered 0 to capacity-1. Steps of E environments are stored in the order [time, environment], so the
    successor of a transition of the same environment lies E slots further on.
    """

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.size = 0
        self.head = 0  # the slot that is written next
        self._fields: dict[str, Array] = {}

    def add(self, steps: Steps) -> IntArray:
        """Stores all T*E transitions, oldest first.

        Returns:
            The slots written [min(T*E, capacity)].
        """
        columns = {name: _flatten(getattr(steps, name)) for name in _FIELDS}
        count = len(columns["reward"])
        if not self._fields:
            self._allocate(columns)
        skipped = max(count - self.capacity, 0)
        slots = (self.head + np.arange(skipped, count)) % self.capacity
        for name, values in columns.items():
            self._fields[name][slots] = values[skipped:]
        self.head = (self.head + count) % self.capacity
        self.size = min(self.size + count, self.capacity)
        return slots

    def read(self, slots: IntArray) -> dict[str, Array]:
        """The stored fields at these slots; each array has the shape of `slots` in front."""
        return {name: values[slots] for name, values in self._fields.items()}

    @property
    def obs_nbytes(self) -> int:
        """Bytes of one observation as stored; 0 before anything is."""
        return self._fields["obs"][0].nbytes if self._fields else 0

    def _allocate(self, like: Mapping[str, Array]) -> None:
        self._fields = {
            name: np.zeros((self.capacity, *values.shape[1:]), _compact(name, values)) for name, values in like.items()
        }

    def get_state(self) -> dict[str, Array]:
        """The written part of every field, in slot order, and where writing goes on."""
        state: dict[str, Array] = {name: values[: self.size] for name, values in self._fields.items()}
        state["position"] = np.array([self.head, self.size, self.capacity], np.int64)
        return state

    def set_state(self, state: Mapping[str, Array]) -> None:
        """Takes over a stored state.

        Raises:
            CheckpointError: The state is of a ring of another capacity.
        """
        head, size, capacity = (int(number) for number in state["position"])
        if capacity != self.capacity:
            raise CheckpointError(
                f"the checkpoint's replay pool has capacity {capacity}, this agent's {self.capacity}: "
                f"set it to {capacity}"
            )
        fields = {name: state[name] for name in _FIELDS if name in state}
        if fields:
            self._allocate(fields)
            for name, values in fields.items():
                self._fields[name][:size] = values
        self.head, self.size = head, size

    def __len__(self) -> int:
        """How many transitions are stored."""
        return self.size


_FIELDS = ("obs", "action", "reward", "next_obs", "terminated", "ended")


def _flatten(values: Array) -> Array:
    """[T, E, ...] -> [T*E, ...]."""
    return values.reshape(-1, *values.shape[2:])


def _compact(name: str, values: Array) -> np.dtype[np.generic]:
    """The type a field is stored in: actions of discrete spaces need no 64 bits."""
    return np.dtype(np.int32) if name == "action" and values.dtype.kind == "i" else values.dtype
