"""Keeps a helper process from holding up the end of this one."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

import psutil

_TICK_S: Final = 0.25
_MOST_TURNS: Final = 30


def kill_at_exit(name: str, grace_s: float, may_go_on: Callable[[], bool]) -> None:
    """Sees to it that child processes of that name live at most `grace_s` seconds longer than the main thread.

    For helpers that the exit hook of some library waits for without a limit. Nothing happens where they end in time.
    Time in which this process itself did not run does not count: then the helper did not, either.

    Args:
        name: Of the processes.
        grace_s: Seconds.
        may_go_on: Asked then, whether one that works, or waits for a processor or a disk, gets as long again.
    """
    threading.Thread(target=_watch, args=(name, grace_s, may_go_on), name=f"watchdog-{name}", daemon=True).start()


class Patience:
    """How long helpers may do nothing, counted in looks at them: a clock goes on while a machine is paused.

    Args:
        num_looks: In a row at which a helper does nothing, until it is given up.
    """

    def __init__(self, num_looks: int) -> None:
        self._num_looks = num_looks
        self._idle: dict[object, int] = {}
        self._used: dict[object, float] = {}

    def is_over(self, helper: object, used_s: float, is_waiting: bool) -> bool:
        """Looks at a helper.

        Args:
            helper: Which.
            used_s: Seconds of processor time that it has used in all.
            is_waiting: Whether it would go on if it got a processor or its disk answered.

        Returns:
            Whether it is given up.
        """
        works = is_waiting or used_s > self._used.get(helper, used_s)
        self._used[helper] = used_s
        self._idle[helper] = 0 if works else self._idle.get(helper, 0) + 1
        return self._idle[helper] > self._num_looks


def _watch(name: str, grace_s: float, may_go_on: Callable[[], bool]) -> None:
    threading.main_thread().join()  # it counts as ended when the interpreter begins to shut down, before its exit hooks
    num_looks = max(1, round(grace_s / _TICK_S))
    patience = Patience(num_looks)
    for _ in range(_MOST_TURNS * num_looks):
        for child in _children(name):
            with suppress(psutil.Error):
                times, goes_on = child.cpu_times(), may_go_on()
                used_s = times.user + times.system if goes_on else 0.0
                if patience.is_over(child, used_s, goes_on and waits_for_machine(child.pid)):
                    child.kill()
        time.sleep(_TICK_S)


def _children(name: str) -> Iterator[psutil.Process]:
    for child in psutil.Process().children():
        with suppress(psutil.Error):
            if child.name() == name:
                yield child


def waits_for_machine(pid: int) -> bool:
    """Whether a thread of a process runs, waits for a processor, or waits for a disk."""
    with suppress(OSError):  # it may end meanwhile, as each of its threads may
        for path in Path(f"/proc/{pid}/task").glob("*/stat"):
            with suppress(OSError):
                if path.read_text().rpartition(")")[2].split()[0] in ("R", "D"):
                    return True
    return False
