"""Keeps Python's garbage collection out of a block, with the callbacks and finalisers that it runs."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def no_garbage_collection() -> Iterator[None]:
    """Collects no garbage within the block, in any thread; afterwards it is collected as before."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
