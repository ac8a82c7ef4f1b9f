"""Process information from the operating system: parents and children, liveness, memory of a group.

Linux is asked directly (/proc, pidfds); elsewhere psutil is, and the end of a pipe stands in for a pidfd.
"""

import contextlib
import os
import signal
import sys
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

ON_LINUX = sys.platform == "linux"
_PROC = Path("/proc")


def start_time(pid: int) -> str | None:
    """Returns what tells a process from a later one with the same number, or None if it is dead or a zombie.

    On Linux: the boot's id and the start in clock ticks since the boot, which no change of the clock moves.
    """
    if not ON_LINUX:
        return _start_time_elsewhere(pid)
    fields = _stat(pid)
    if fields is None or fields[0] in "ZX":
        return None
    return f"{_boot_id()}:{fields[19]}"


def parents() -> dict[int, int]:
    """Returns the parent of each process, zombies included."""
    if not ON_LINUX:
        return _parents_elsewhere()
    found = {}
    for pid in _pids():
        fields = _stat(pid)
        if fields is not None:
            found[pid] = int(fields[1])
    return found


def has_children() -> bool:
    """Whether this process has started another one that was not waited for yet."""
    return os.getpid() in parents().values()


def variable_of(pid: int, name: str) -> str | None:
    """Returns an environment variable that a process, or the one it was forked from, was started with.

    None if there is none, the process is gone, or its environment may not be read.
    """
    if not ON_LINUX:
        return _variable_elsewhere(pid, name)
    try:
        variables = (_PROC / str(pid) / "environ").read_bytes().split(b"\0")
    except OSError:
        return None
    prefix = f"{name}=".encode()
    return next(
        (one.removeprefix(prefix).decode(errors="replace") for one in variables if one.startswith(prefix)), None
    )


def group_members(group: int) -> list[int]:
    """Returns the numbers of the living processes of a process group, zombies excluded."""
    return [pid for pid in _pids() if _group_of(pid) == group and start_time(pid) is not None]


def belonging_to(groups: Iterable[int]) -> dict[int, int]:
    """Returns the processes of each group and all that descends from them, also what has left it: PID to group.

    A process whose parents have ended and which is in another group belongs to nobody: nothing tells whose it was.
    """
    wanted, children = set(groups), defaultdict[int, list[int]](list)
    for pid, parent in parents().items():
        children[parent].append(pid)
    found = {pid: group for several in children.values() for pid in several if (group := _group_of(pid)) in wanted}
    waiting = list(found)
    while waiting:
        pid = waiting.pop()
        for child in children[pid]:
            if child not in found:
                found[child] = found[pid]
                waiting.append(child)
    return found


def memory_of_groups(groups: Iterable[int]) -> dict[int, float]:
    """Returns the resident memory of each process group and of what descends from it, in MB (1e6 bytes)."""
    import psutil

    total = dict.fromkeys(groups, 0.0)
    for pid, group in belonging_to(total).items():
        with contextlib.suppress(psutil.Error):
            total[group] += psutil.Process(pid).memory_info().rss / 1e6
    return total


def open_pidfd(pid: int) -> int | None:
    """Returns a descriptor that becomes readable when the process ends; None where there are none, or it is gone."""
    if sys.platform != "linux":
        return None
    try:
        return os.pidfd_open(pid)
    except OSError:  # an old kernel, or a process that is gone already
        return None


def send_signal(pid: int, pidfd: int | None, number: signal.Signals) -> None:
    """Sends a signal to one process, if it is still there; through its pidfd a recycled number is no danger."""
    with contextlib.suppress(ProcessLookupError):
        if pidfd is not None and sys.platform == "linux":
            signal.pidfd_send_signal(pidfd, number)
        else:
            os.kill(pid, number)


def kill_group(leader: int) -> None:
    """Sends SIGKILL to the process group that `leader` founded.

    Call it only while `leader` is not reaped, or right after its end: later the number may be another's.
    """
    assert leader > 1, leader
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, signal.SIGKILL)


def reap(pid: int) -> int | None:
    """Collects a child of this process if it has ended, together with what is left of the group it founded.

    Returns:
        The exit code (minus the signal's number if a signal ended it), or None if it has not ended.
    """
    can_peek = hasattr(os, "waitid")  # not on macOS before Python 3.13
    if can_peek:
        if os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
            return None
        kill_group(pid)  # as long as the leader is not reaped, its number is nobody else's
    ended, status = os.waitpid(pid, os.WNOHANG)
    if not ended:
        return None
    if not can_peek:
        kill_group(pid)
    return os.waitstatus_to_exitcode(status)


def same_boot(started: str) -> bool:
    """Whether a `start_time` is of this boot of this machine; elsewhere than on Linux there is no telling: False."""
    return ON_LINUX and started.startswith(f"{_boot_id()}:")


def _pids() -> list[int]:
    if ON_LINUX:
        return [int(name) for name in os.listdir(_PROC) if name.isdecimal()]
    import psutil

    return psutil.pids()


def _group_of(pid: int) -> int | None:
    try:
        return os.getpgid(pid)
    except OSError:
        return None


def _stat(pid: int) -> list[str] | None:
    """Returns the fields of /proc/PID/stat from the state (field 3 of proc_pid_stat(5)) on."""
    try:
        text = (_PROC / str(pid) / "stat").read_text()
    except OSError:
        return None
    return text.rpartition(")")[2].split()  # the name before may hold spaces and brackets


def _boot_id() -> str:
    try:
        return (_PROC / "sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


def _parents_elsewhere() -> dict[int, int]:
    import psutil

    return {one.pid: one.info["ppid"] for one in psutil.process_iter(["ppid"]) if one.info["ppid"] is not None}


def _variable_elsewhere(pid: int, name: str) -> str | None:
    import psutil

    try:
        return psutil.Process(pid).environ().get(name)
    except psutil.Error:
        return None


def _start_time_elsewhere(pid: int) -> str | None:
    import psutil

    try:
        process = psutil.Process(pid)
        return None if process.status() == psutil.STATUS_ZOMBIE else str(process.create_time())
    except psutil.Error:
        return None
