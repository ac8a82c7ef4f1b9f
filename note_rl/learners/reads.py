"""Which attributes of objects are looked up while a function runs."""

import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

_one_at_a_time = threading.RLock()


@contextmanager
def reads_of(targets: Sequence[Any]) -> Iterator[list[dict[str, None]]]:
    """Gives the names of all attributes that this thread looks up on objects within the block, in their order.

    For that time their classes have a `__getattribute__` that takes note: lookups by an object's own methods, and by
    functions that hold on to it, can be seen nowhere else. One that was always there would slow down every lookup.

    Yields:
        One collection of names per object.
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
    own = vars(kind).get("__getattribute__")
    plain, thread = kind.__getattribute__, threading.get_ident()

    def look_up(self: Any, name: str) -> Any:
        noted = by_identity.get(id(self))
        if noted is not None and threading.get_ident() == thread:
            noted[name] = None
        return plain(self, name)

    kind.__getattribute__ = look_up
    try:
        yield
    finally:
        if own is None:
            del kind.__getattribute__
        else:
            kind.__getattribute__ = own
