"""Keeps a helper process from holding up the end of this one."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Final

import psutil

_MOST_TURNS: Final = 30


def kill_at_exit(name: str, grace_s: float, may_go_on: Callable[[], bool]) -> None:
    """Sees to it that child processes of that name live at most `grace_s` seconds longer than the main thread.

    For helpers that the exit hook of some library waits for without a limit. Nothing happens where they end in time.

    Args:
        name: Of the processes.
        grace_s: Seconds.
        may_go_on: Asked then, whether one that has used processor time meanwhile gets as long again.
    """
    threading.Thread(target=_watch, args=(name, grace_s, may_go_on), name=f"watchdog-{name}", daemon=True).start()


def _watch(name: str, grace_s: float, may_go_on: Callable[[], bool]) -> None:
    threading.main_thread().join()  # it counts as ended when the interpreter begins to shut down, before its exit hooks
    before: dict[psutil.Process, float] = {}
    for _ in range(_MOST_TURNS):
        now = dict(_processor_seconds(name))
        for child, seconds in now.items():
            if child in before and not (may_go_on() and seconds > before[child]):
                with suppress(psutil.Error):
                    child.kill()
        before = now
        time.sleep(grace_s)


def _processor_seconds(name: str) -> Iterator[tuple[psutil.Process, float]]:
    """Of each child process of that name."""
    for child in psutil.Process().children():
        with suppress(psutil.Error):
            if child.name() == name:
                times = child.cpu_times()
                yield child, times.user + times.system
