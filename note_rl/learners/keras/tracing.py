"""What a traced function of a Keras agent has taken for constant, and whether it still holds.

TensorFlow traces a function once: a number that the agent looks up in `self` is written into the graph. So the
attributes that tracing read are noted with their values, and compared before each update.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from operator import is_
from typing import Any

from note_rl.learners.reads import reads_of

_PLAIN = (int, float, bool, str, type(None))


class Constants:
    """The attributes that tracing read, as they were then.

    Numbers and words are compared, in lists and mappings too; of other objects, which they are.

    Args:
        agent: Of its own attributes those count that were read.
        optimizers: All numbers and words of each count.
        inputs: Names of the agent's attributes that come as inputs.
    """

    def __init__(self, agent: Any, optimizers: Sequence[Any] = (), inputs: Collection[str] = ()) -> None:
        self._agent = agent
        self._optimizers = optimizers
        self._inputs = frozenset(inputs)
        self._read: set[str] = set()
        self._before: dict[str, Any] = {}
        self._held: dict[str, Any] = {}  # of the agent, what was read: the very objects
        self._changeable: list[str] = []  # those of it that can change within
        self._held_by_optimizers: list[list[Any]] = []

    @contextmanager
    def guarded(self) -> Iterator[None]:
        """Notes what is read within the block, in which a function is traced."""
        with reads_of([self._agent]) as (names,):
            yield
        self._read |= names.keys() - self._inputs
        self._before = self._now()
        self._hold()

    def changed(self) -> list[str]:
        """Returns the names of what is no longer as it was when it was noted."""
        if not self._before or self._is_held():
            return []
        now = self._now()
        if now == self._before:
            self._hold()
            return []
        return [name for name in now if now[name] != self._before.get(name)]

    def _hold(self) -> None:
        attributes = vars(self._agent)
        self._held = {name: attributes.get(name, _ABSENT) for name in self._read}
        self._changeable = [name for name, value in self._held.items() if isinstance(value, Mapping | list | tuple)]
        self._held_by_optimizers = [list(vars(optimizer).values()) for optimizer in self._optimizers]

    def _is_held(self) -> bool:
        """Whether all of it is the same objects, and none of them can change within: a tenth of the time of `_now`."""
        now = vars(self._agent)
        if any(now.get(name, _ABSENT) is not value for name, value in self._held.items()):
            return False
        if any(_comparable(self._held[name]) != self._before[name] for name in self._changeable):
            return False
        return all(
            len(vars(optimizer)) == len(held) and all(map(is_, vars(optimizer).values(), held))
            for optimizer, held in zip(self._optimizers, self._held_by_optimizers, strict=True)
        )

    def _now(self) -> dict[str, Any]:
        attributes = vars(self._agent)
        values = {name: _comparable(attributes[name]) if name in attributes else _ABSENT for name in self._read}
        for index, optimizer in enumerate(self._optimizers):
            kind = type(optimizer).__name__
            for name, value in vars(optimizer).items():
                if isinstance(value, _PLAIN):
                    values[f"{kind} {index}: {name}"] = _comparable(value)
        return values


@dataclass(frozen=True, eq=False)
class _SameObject:
    """Equal to itself and nothing else; held, so that its identity is not given away."""

    held: Any

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _SameObject) and self.held is other.held

    def __hash__(self) -> int:
        return id(self.held)


_ABSENT = _SameObject(object())


def _comparable(value: Any) -> Any:
    """Returns what is equal as long as the value would be traced into the same graph."""
    if isinstance(value, _PLAIN):
        return type(value), value  # 1, 1.0 and True are equal, but not in a graph
    if isinstance(value, Mapping):
        return {key: _comparable(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_comparable(item) for item in value]
    return _SameObject(value)
