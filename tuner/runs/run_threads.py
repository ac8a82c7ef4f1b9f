"""Threads of numerical libraries in a run that is trained in this process."""

import importlib
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from note_rl.support.threads import thread_variables
from tuner.config.composition import BackendConfig
from tuner.runs.quiet import quiet_import

_lock = threading.Lock()
_under_way: list[None] = []  # one for each run
_undo: list[Callable[[], None]] = []  # by the last of them


@contextmanager
def few_threads(backend: BackendConfig) -> Iterator[None]:
    """While a run is trained on the CPU: one thread, which is several times faster for networks as small as these.

    Where the environment says how many (OMP_NUM_THREADS), that counts. Afterwards everything is as it was, but for
    TensorFlow, which settles its threads when it first works. Runs may take turns: all have the threads of the first.
    """
    if backend.device != "cpu":
        yield
        return
    with _lock:
        if not _under_way:
            _undo.extend(_reduce(backend))
        _under_way.append(None)
    try:
        yield
    finally:
        with _lock:
            _under_way.pop()
            while _undo and not _under_way:
                _undo.pop()()


def _reduce(backend: BackendConfig) -> Iterator[Callable[[], None]]:
    """Sets the threads; gives what sets them back."""
    if backend.module == "torch" and "OMP_NUM_THREADS" not in os.environ:
        quiet_import("torch")  # which at this moment still finds as many threads as it is to go back to
        torch: Any = importlib.import_module("torch")
        before = torch.get_num_threads()
        torch.set_num_threads(1)
        yield lambda: torch.set_num_threads(before)
    for name, value in thread_variables(1).items():
        if name not in os.environ:
            os.environ[name] = value
            yield lambda name=name: os.environ.pop(name, None)  # type: ignore[misc]
