"""Leftovers of a trial, and how they are ended: nothing that a trial has started outlives it.

A process that founds its own session, or whose parent ends, is in no group and below no parent that would tell whose it
is. Three things make it known nevertheless:

- A trial's process and the fork server are *subreapers* (prctl(2), Linux): a process whose parent ends becomes a child
  of the nearest of them and not of init. While a trial lives, all that it has started is below it; it takes that along
  when it ends. What a killed trial leaves comes to the fork server, which has no other children than trials.
- A *mark* in the environment names the executor that everything descends from. It is looked for where no fork server
  is there to inherit: the controller does so when a trial has ended, and so does the next controller of the study.
- A *warden* (`tuner.trial.warden`), which does nothing while the controller lives, does so when the controller, the
  fork server and the trials have died, of whatever.
"""

import contextlib
import ctypes
import os
import secrets
import signal
import time
from collections.abc import Collection, Iterable, Mapping

from tuner.trial import system

SESSION_VARIABLE = "TUNER_SESSION"
"""Holds the marks of all executors that a process descends from, the nearest last: a trial may have one of its own."""

_SET_PARENT_DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG
_SET_CHILD_SUBREAPER = 36  # PR_SET_CHILD_SUBREAPER of linux/prctl.h
_PATIENCE_S = 5.0  # a killed process ends at once, unless the disk that it waits for does not answer
_POLL_S = 0.01


def become_subreaper() -> None:
    """Inherit the children of descendants that end. Not passed on to processes that this one forks."""
    _prctl(_SET_CHILD_SUBREAPER, 1)


def end_with_parent() -> None:
    """Be killed when the thread ends that has started this process, whatever a library is waiting for by then."""
    _prctl(_SET_PARENT_DEATH_SIGNAL, signal.SIGKILL)


def _prctl(option: int, value: int) -> None:
    if system.ON_LINUX:
        with contextlib.suppress(AttributeError, OSError):  # another C library: what is marked is found all the same
            ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def end_children(spared: Collection[int] = ()) -> None:
    """Ends the children of this process, with all that descends from them, and collects them.

    Children that end hand theirs over to this process, if it is a subreaper, so that nothing escapes.

    Args:
        spared: Children that are left alone, with their descendants.
    """
    deadline = time.monotonic() + _PATIENCE_S
    while time.monotonic() < deadline:
        parents = system.parents()
        children = [pid for pid, parent in parents.items() if parent == os.getpid() and pid not in spared]
        if not children:
            return
        _kill([*children, *(pid for pid in parents if _is_below(pid, children, parents))])
        for pid in children:
            with contextlib.suppress(ChildProcessError):
                while not os.waitpid(pid, os.WNOHANG)[0] and time.monotonic() < deadline:
                    time.sleep(_POLL_S)


def end_marked(session: str, spared: Iterable[int] = ()) -> bool:
    """Ends all processes that carry the mark of an executor.

    Args:
        session: The mark.
        spared: Processes that are left alone, with all that descends from them.

    Returns:
        Whether there were any.
    """
    spared = set(spared)
    deadline, found_any = time.monotonic() + _PATIENCE_S, False
    while time.monotonic() < deadline:
        parents = system.parents()
        marked = [pid for pid in parents if pid != os.getpid() and _is_marked(pid, session)]
        found = [pid for pid in marked if pid not in spared and not _is_below(pid, spared, parents)]
        if not found:
            break
        found_any = True
        started = {pid: system.start_time(pid) for pid in found}
        _kill(found)
        # One that is ending has no environment any more, that would tell whose it is, and its files still open.
        while any(at and system.start_time(pid) == at for pid, at in started.items()) and time.monotonic() < deadline:
            time.sleep(_POLL_S)
    return found_any


def end_deserted(sessions: Iterable[str]) -> None:
    """Ends what is marked by executors whose controllers are dead, after trials that still checkpoint."""
    for session in sessions:
        if is_deserted(session):
            end_marked(session)


def new_session() -> str:
    """A mark, which tells of which controller it is: of this process."""
    return f"{secrets.token_hex(8)}/{os.getpid()}/{system.start_time(os.getpid())}"


def is_deserted(session: str) -> bool:
    """Whether the controller that a mark names is dead."""
    _, pid, started = session.split("/")
    return system.start_time(int(pid)) != started


def marked_with(session: str, environment: Mapping[str, str]) -> dict[str, str]:
    """The variable that marks a child of a process with this environment."""
    return {SESSION_VARIABLE: f"{environment.get(SESSION_VARIABLE, '')} {session}".strip()}


def own_session() -> str | None:
    """The mark of the executor that started this process, if one did."""
    marks = os.environ.get(SESSION_VARIABLE, "").split()
    return marks[-1] if marks else None


def _is_marked(pid: int, session: str) -> bool:
    marks = system.variable_of(pid, SESSION_VARIABLE)
    return marks is not None and session in marks.split() and system.start_time(pid) is not None


def _kill(pids: Iterable[int]) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)


def _is_below(pid: int, ancestors: Collection[int], parents: Mapping[int, int]) -> bool:
    """Whether a process descends from one of these."""
    seen = set()
    while (parent := parents.get(pid)) and parent not in seen:
        if parent in ancestors:
            return True
        seen.add(parent)
        pid = parent
    return False
