"""What a traced function of a Keras agent has taken for constant, and whether it still holds.

TensorFlow traces a function once: a number that the agent looks up in `self` is written into the graph. So the
attributes that tracing read are noted with their values, and compared before each update.
"""

import threading
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

_PLAIN = (int, float, bool, str, type(None))
_one_trace_at_a_time = threading.RLock()


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

    @contextmanager
    def guarded(self) -> Iterator[None]:
        """Notes what is read within the block, in which a function is traced."""
        with _reads_of(self._agent) as names:
            yield
        self._read |= names - self._inputs
        self._before = self._now()

    def changed(self) -> list[str]:
        """Returns the names of what is no longer as it was when it was noted."""
        if not self._before:
            return []
        now = self._now()
        return [] if now == self._before else [name for name in now if now[name] != self._before.get(name)]

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


@contextmanager
def _reads_of(target: Any) -> Iterator[set[str]]:
    """Gives the names of all attributes that are looked up on an object within the block.

    For that time its class has a `__getattribute__` that takes note: lookups by the object's own methods, and by
    functions that hold on to it, can be seen nowhere else. One that was always there would slow down every lookup.
    """
    kind: Any = type(target)
    names: set[str] = set()
    with _one_trace_at_a_time:  # or another thread would take the hook away too early
        own = vars(kind).get("__getattribute__")
        plain = kind.__getattribute__

        def look_up(self: Any, name: str) -> Any:
            if self is target:
                names.add(name)
            return plain(self, name)

        kind.__getattribute__ = look_up
        try:
            yield names
        finally:
            if own is None:
                del kind.__getattribute__
            else:
                kind.__getattribute__ = own
