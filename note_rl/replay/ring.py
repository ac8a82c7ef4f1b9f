"""A ring of transitions in plain NumPy arrays."""

from collections.abc import Mapping

import numpy as np

from note_rl.errors import CheckpointError
from note_rl.replay.column_storage import zeros
from note_rl.types import (
    EXTRAS,
    NEXT_ACTION_MASK,
    STATE_BEFORE,
    STEP_COLUMNS,
    Array,
    BoolArray,
    IntArray,
    Steps,
    nested,
    under,
)


class Ring:
    """Keeps the newest `capacity` transitions; writing over the oldest costs O(N) for N new ones.

    Transitions lie in slots. Steps of E environments are stored in the order [time, environment], so the successor of a
    transition in the same environment lies E slots further on, modulo the number of slots. The age of a transition
    counts from the oldest that is kept (0) to the newest (size-1). Dropping the oldest only moves the beginning.

    Args:
        capacity: Most transitions kept.
        margin: Steps per environment beyond these that are still there to be looked back at, but not kept.
    """

    stored = STEP_COLUMNS

    def __init__(self, capacity: int, margin: int = 0) -> None:
        self.capacity = capacity
        self.size = 0
        self.head = 0  # the slot that is written next
        self.num_slots = capacity  # once something is stored, and with the margin
        self.num_envs = 0  # E of what is stored; 0: nothing yet
        self._margin = margin
        self._written = 0  # slots that have ever held anything
        self._fields: dict[str, Array] = {}

    def add(self, steps: Steps) -> IntArray:
        """Stores all T*E transitions, oldest first.

        Returns:
            The slots written, in that order: min(T*E, number of slots) of them.
        """
        columns = {name: flat(getattr(steps, name)) for name in self.stored}
        columns.update(nested(EXTRAS, {name: flat(values) for name, values in steps.extras.items()}))
        count = steps.num_env_steps
        self.num_envs = steps.ended.shape[1]
        if not self._fields:
            self._allocate(columns)
        skipped = max(count - self.num_slots, 0)
        end = self.head + count
        whole = skipped == 0 and end <= self.num_slots  # most often: one piece, written several times faster
        slots = np.arange(self.head + skipped, end)
        slots = slots if whole else slots % self.num_slots
        where = slice(self.head, end) if whole else slots
        for name, values in columns.items():
            self._fields[name][where] = values[skipped:]
        self.head = (self.head + count) % self.num_slots
        self.size = min(self.size + count, self.capacity)
        self._written = min(self._written + count, self.num_slots)
        return slots

    def drop_oldest(self, count: int) -> IntArray:
        """Forgets a number of the oldest; costs nothing but naming them.

        Returns:
            The slots that are no longer kept.
        """
        slots = self.slots(np.arange(min(max(count, 0), self.size)))
        self.size -= len(slots)
        return slots

    def slots(self, ages: IntArray) -> IntArray:
        """Where the transitions of these ages lie; -1 is the one before the oldest kept."""
        found: IntArray = (self.head - self.size + ages) % self.num_slots
        return found

    def ages(self, slots: IntArray) -> IntArray:
        """How long after the oldest kept these were stored; slots that are not kept give size or more."""
        ages: IntArray = (slots - (self.head - self.size)) % self.num_slots
        return ages

    def ahead(self, slots: IntArray, steps: IntArray | int) -> IntArray:
        """Slots a number of steps later in the same environment (earlier where negative)."""
        moved: IntArray = (slots + steps * self.num_envs) % self.num_slots
        return moved

    def interrupt(self) -> None:
        """Notes that the next steps stored are no continuation: running episodes count as truncated here."""
        if self.size:
            self._fields["ended"][self.newest()] = True

    def newest(self) -> IntArray:
        """The slots of the last step of each environment."""
        return self.slots(np.arange(max(self.size - self.num_envs, 0), self.size))

    def column(self, name: str, slots: IntArray) -> Array:
        """One stored field at these slots, whose shape comes in front; an extra is found by its own name."""
        return gathered(self._fields[name if name in self._fields else f"{EXTRAS}/{name}"], slots)

    def obs(self, slots: IntArray) -> Array:
        """Observations before the action: [..., *obs]."""
        return gathered(self._fields["obs"], slots)

    def next_obs(self, slots: IntArray) -> Array:
        """Observations after the action: [..., *obs]."""
        return gathered(self._fields["next_obs"], slots)

    def extras(self, slots: IntArray, last: IntArray | None = None, first: IntArray | None = None) -> dict[str, Array]:
        """Further fields by name.

        Args:
            slots: Where transitions begin.
            last: Where they end, which says what is allowed next; None: there, too.
            first: Where the sequences begin that they form, and that the states are of; None: there, too.
        """
        others = {NEXT_ACTION_MASK: last, STATE_BEFORE: first}
        places = {name: where for name, where in others.items() if where is not None}
        stored = under(EXTRAS, self._fields)
        return {name: gathered(values, places.get(name, slots)) for name, values in stored.items()}

    def has(self, name: str) -> bool:
        """Whether there is such a field or extra."""
        return name in self._fields or f"{EXTRAS}/{name}" in self._fields

    @property
    def obs_nbytes(self) -> int:
        """Bytes of one observation as it is read; 0 before anything is stored."""
        return self._fields["obs"][0].nbytes if self._fields else 0

    @property
    def nbytes(self) -> int:
        """Memory taken."""
        return sum(values.nbytes for values in self._fields.values())

    def _allocate(self, like: Mapping[str, Array]) -> None:
        self.num_slots = self.capacity + self._margin * self.num_envs
        slot = {name: (values.shape[1:], _compact(name, values)) for name, values in like.items()}
        self._fields = zeros(self.num_slots, slot)

    def get_state(self) -> dict[str, Array]:
        """The written part of every field, in slot order, and where writing goes on."""
        state: dict[str, Array] = {name: values[: self._written] for name, values in self._fields.items()}
        state["position"] = np.array([self.head, self.size, self.capacity, self._written, self.num_envs], np.int64)
        return state

    def set_state(self, state: Mapping[str, Array]) -> None:
        """Takes over a stored state.

        Raises:
            CheckpointError: The state is of a ring of another capacity or kind.
        """
        head, size, capacity, written, num_envs = (int(number) for number in state["position"])
        if capacity != self.capacity:
            raise CheckpointError(
                f"the checkpoint's replay pool has capacity {capacity}, this agent's {self.capacity}: "
                f"set it to {capacity}"
            )
        fields = {name: state[name] for name in state if name in self.stored or name.startswith(f"{EXTRAS}/")}
        missing = [name for name in self.stored if name not in fields]
        if num_envs and missing:
            raise CheckpointError(f"the checkpoint's replay pool was stored in another way: it has no {missing[0]!r}")
        self.num_envs = num_envs
        self._fields = {}
        if num_envs:
            self._allocate(fields)
            for name, values in fields.items():
                self._fields[name][:written] = values
        self.head, self.size, self._written = head, size, written

    def __len__(self) -> int:
        """How many transitions are kept."""
        return self.size


def episode_starts(ended: BoolArray, over: BoolArray) -> BoolArray:
    """Which steps begin an episode, [T, E], from where episodes end [T, E] and what was over before the first [E]."""
    return np.concatenate([over[None], ended[:-1]])


def flat(values: Array) -> Array:
    """[T, E, ...] -> [T*E, ...]."""
    return values.reshape(-1, *values.shape[2:])


def gathered(values: Array, slots: IntArray) -> Array:
    """values[slots], which takes up to ten times as long where rows are short."""
    rows: Array = values.take(slots, axis=0)
    return rows


def _compact(name: str, values: Array) -> np.dtype[np.generic]:
    """The type a field is stored in: actions of discrete spaces need no 64 bits."""
    return np.dtype(np.int32) if name == "action" and values.dtype.kind == "i" else values.dtype
