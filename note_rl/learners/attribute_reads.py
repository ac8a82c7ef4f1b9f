"""Which attributes of objects are looked up while a function runs."""

import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

_one_at_a_time = threading.RLock()


@contextmanager
def reads_of(targets: Sequence[Any]) -> Iterator[list[dict[str, None]]]:
    """Gives the names of all attributes that this thread looks up on objects within the block, before it sets them.

    For that time their classes have methods that take note: lookups by an object's own methods, and by
    functions that hold on to it, can be seen nowhere else. Methods that were always there would slow down every lookup.

    Yields:
        One collection of names per object, in their order.
    """
    names: list[dict[str, None]] = [{} for _ in targets]
    by_identity = {id(target): noted for target, noted in zip(targets, names, strict=True)}
    kinds = list(dict.fromkeys(map(type, targets)))
    with _one_at_a_time, ExitStack() as stack:  # or another thread would take the hooks away too early
        for kind in kinds:
            stack.enter_context(_hooked(kind, by_identity))
        yield names


@contextmanager
def _hooked(kind: Any, by_identity: dict[int, dict[str, None]]) -> Iterator[None]:
    own = {name: vars(kind).get(name) for name in ("__getattribute__", "__setattr__")}
    plain_look_up, plain_set, thread = kind.__getattribute__, kind.__setattr__, threading.get_ident()
    written: set[tuple[int, str]] = set()

    def look_up(self: Any, name: str) -> Any:
        noted = by_identity.get(id(self))
        if noted is not None and threading.get_ident() == thread and (id(self), name) not in written:
            noted[name] = None
        return plain_look_up(self, name)

    def set_to(self: Any, name: str, value: Any) -> None:
        if id(self) in by_identity and threading.get_ident() == thread:
            written.add((id(self), name))
        plain_set(self, name, value)

    kind.__getattribute__, kind.__setattr__ = look_up, set_to
    try:
        yield
    finally:
        for name, method in own.items():
            if method is None:
                delattr(kind, name)
            else:
                setattr(kind, name, method)
