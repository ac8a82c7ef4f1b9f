"""How much memory there is, whether a number of processes fits into it, and the return of what was freed."""

import ctypes
import math
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
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


def release_freed() -> None:
    """Returns freed memory of this process to the system; does nothing where the C library is not that of GNU.

    That library returns small pieces by itself only at the end of its heap. Where many objects come and go between some
    that stay, as in the worlds of Box2D, a process grows in each episode.
    """
    if sys.platform == "linux" and (trim := getattr(ctypes.CDLL(None), "malloc_trim", None)) is not None:
        trim(ctypes.c_size_t(0))


def _allowed_processes() -> float:
    try:
        import resource
    except ImportError:
        return math.inf
    most, _ = resource.getrlimit(resource.RLIMIT_NPROC)
    return math.inf if most == resource.RLIM_INFINITY else most


def free_memory() -> float:
    """Bytes that this process may still take: of the machine, or of a control group that it is in.

    Where the system does not say what is free, half of what there is; where not even that, no end of it.
    """
    return min([_free_of_machine(), *map(_free_of_group, _control_groups())])


@dataclass(frozen=True)
class _ControlGroup:
    """Names of the files with its limit, what is taken, and the cached files in that, which are given up for others."""

    folder: Path
    most: str
    taken: str
    cached: str


def _control_groups() -> Iterator[_ControlGroup]:
    """Those that this process is in, of both versions, up to the root."""
    try:
        lines = _OWN_GROUPS.read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError):  # another system
        lines = []
    for number, kinds, place in (line.split(":", 2) for line in ["0::/", *lines] if line.count(":") >= 2):
        names, root = _GROUP_FILES[number == "0"]
        if number == "0" or "memory" in kinds.split(","):
            inner = Path(place.lstrip("/"))
            yield from (_ControlGroup(root / part, *names) for part in (inner, *inner.parents))


def _free_of_group(group: _ControlGroup) -> float:
    try:
        most, taken = (_number(group.folder / name) for name in (group.most, group.taken))
    except (OSError, ValueError):  # no such group, or no limit: "max"
        return math.inf
    try:
        fields = (group.folder / "memory.stat").read_text(encoding="ascii").split()
        return most - taken + float(fields[fields.index(group.cached) + 1])
    except (OSError, ValueError, IndexError):  # it does not say how much is cached
        return most - taken


_OWN_GROUPS: Final = Path("/proc/self/cgroup")
_GROUP_FILES: Final = {
    True: (("memory.max", "memory.current", "inactive_file"), Path("/sys/fs/cgroup")),
    False: (("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"), Path("/sys/fs/cgroup/memory")),
}
"""Of version 2, and of version 1."""


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
