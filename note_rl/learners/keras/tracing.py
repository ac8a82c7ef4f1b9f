"""What a traced function of a Keras agent has taken for constant, and whether it still holds."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

_PLAIN = (int, float, bool, str, type(None))


@dataclass(frozen=True, eq=False)
class _Identity:
    """Equal to itself and nothing else; held, so that its identity is not given away."""

    one: Any

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Identity) and self.one is other.one

    def __hash__(self) -> int:
        return id(self.one)


_ABSENT = _Identity(object())


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
        """While a function is traced: notes what is read."""
        with _reads_of(self._agent) as names:
            yield
        self._read |= names - self._inputs
        self._before = self._now()

    def changed(self) -> list[str]:
        """Names of what is no longer as it was when it was noted."""
        if not self._before:
            return []
        now = self._now()
        return [] if now == self._before else [name for name in now if now[name] != self._before.get(name)]

    def _now(self) -> dict[str, Any]:
        attributes = vars(self._agent)
        found = {name: _constant(attributes[name]) if name in attributes else _ABSENT for name in self._read}
        for index, optimizer in enumerate(self._optimizers):
            kind = type(optimizer).__name__
            numbers = {name: value for name, value in vars(optimizer).items() if isinstance(value, _PLAIN)}
            found.update({f"{kind} {index}: {name}": _constant(value) for name, value in numbers.items()})
        return found


def _constant(value: Any) -> Any:
    if isinstance(value, _PLAIN):
        return type(value), value
    if isinstance(value, Mapping):
        return {key: _constant(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_constant(one) for one in value]
    return _Identity(value)


@contextmanager
def _reads_of(target: Any) -> Iterator[set[str]]:
    """The names of all attributes that are looked up on an object within the block.

    For that time its class is one that takes note: only there lookups by the object's own methods can be seen.
    """
    names: set[str] = set()
    kind: Any = type(target)

    def look_up(self: Any, name: str) -> Any:
        names.add(name)
        return kind.__getattribute__(self, name)

    noting = type(kind)(kind.__name__, (kind,), {"__getattribute__": look_up, "__module__": kind.__module__})
    object.__setattr__(target, "__class__", noting)
    try:
        yield names
    finally:
        object.__setattr__(target, "__class__", kind)
