"""How much memory there is, and whether a number of processes fits into it."""

import math
import os
import sys
from pathlib import Path
from typing import Final

from note_rl.errors import SettingsError
from note_rl.errors.wording import Name, as_setting

_GB: Final = 1e9
LEAST_OF_A_FORK: Final = 20e6
"""Bytes that a process takes for itself which was forked from one that had all modules imported, or more."""
LEAST_OF_A_PROCESS: Final = 100e6
"""Bytes that a process takes which has imported a framework by itself, or more."""


def check_processes(setting: Name, number: int, each: float) -> None:
    """Refuses more processes at a time than can be there.

    Args:
        setting: That has the number.
        number: How many at a time.
        each: Bytes that one takes at least.

    Raises:
        SettingsError: Memory, or the number of processes that this user may have, does not allow it.
    """
    free, allowed = free_memory(), _allowed_processes()
    fits = int(min(free / each, allowed))
    if number <= fits:
        return
    needed = (
        f"at least {number * each / _GB:,.1f} GB of memory, of which {free / _GB:.1f} GB are free"
        if number * each > free
        else f"and this user may have {allowed:,.0f} processes"
    )
    raise SettingsError(
        "{} asks for {:,} processes at a time: {}. Choose {:,} at most; more than the {} cores of this machine are "
        "seldom of use",
        *(as_setting(setting).at(number), number, needed, max(fits, 1), os.cpu_count() or 1),
    )


def resident_bytes() -> float:
    """Memory of this process; its peak where the system does not tell how much it is now."""
    now = Path("/proc/self/statm")
    if now.exists():
        return float(now.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    import resource  # is not there on Windows

    unit = 1 if sys.platform == "darwin" else 2**10
    return float(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit)


def _allowed_processes() -> float:
    try:
        import resource
    except ImportError:
        return math.inf
    most, _ = resource.getrlimit(resource.RLIMIT_NPROC)
    return math.inf if most == resource.RLIM_INFINITY else most


def free_memory() -> float:
    """Bytes that this process may still take: of the machine, or of the control group that it is in.

    Where the system does not say what is free, half of what there is; where not even that, no end of it.
    """
    try:
        most, taken = (_number(Path("/sys/fs/cgroup") / name) for name in ("memory.max", "memory.current"))
        allowed = most - taken
    except (OSError, ValueError):  # another system, or no limit: "max"
        allowed = math.inf
    return min(allowed, _free_of_machine())


def _free_of_machine() -> float:
    try:
        told = Path("/proc/meminfo").read_text(encoding="ascii")
        return 1024.0 * float(told.partition("MemAvailable:")[2].split()[0])
    except (OSError, IndexError):
        pass
    try:
        return 0.5 * os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return math.inf


def _number(path: Path) -> float:
    return float(path.read_text(encoding="ascii"))
