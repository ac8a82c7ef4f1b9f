"""Calls whose answers come from outside of the program: the time, files, the environment, bytes of chance.

A profiler sees them while a loss is traced or recorded, which would keep their first answers for good. It does not
see what compiled code reads by itself, such as that of an extension module.
"""

import datetime
import io
import os
import random
import sys
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from functools import cache
from types import FrameType
from typing import Any

_TIMES = [f"{name}{unit}" for name in ("time", "monotonic", "perf_counter", "process_time") for unit in ("", "_ns")]
_CALLS: dict[Any, str] = {
    **{getattr(time, name): f"time.{name}()" for name in (*_TIMES, "localtime", "gmtime", "ctime", "strftime")},
    **{getattr(os, name): f"os.{name}()" for name in ("urandom", "getpid", "getcwd", "stat", "listdir", "scandir")},
    **{getattr(datetime.datetime, name): f"datetime.{name}()" for name in ("now", "utcnow", "today")},
    datetime.date.today: "date.today()",
    io.open: "open()",
    **{input: "input()", globals: "globals()", vars: "vars()", dir: "dir()"},  # the last: past all that notes reads
}
_ENVIRONMENT, _SEED = "os.environ", "random numbers without a seed"
_CODES = {  # by identity: the hash of code is slow
    id(type(os.environ).__getitem__.__code__): _ENVIRONMENT,
    id(type(os.environ).__iter__.__code__): _ENVIRONMENT,
    id(random.Random.seed.__code__): _SEED,
}
_FRAMEWORKS = {"tensorflow", "keras", "torch", "numpy", "note_rl"}
_CALLING = ("converted_call", "_call_unconverted")  # by which TensorFlow calls what a function calls that it converts
_BESIDES = {"importlib", "logging", "warnings", "linecache", "inspect", "traceback"}  # whose answers decide nothing


def read_from_outside(frame: FrameType, event: str, called: Any, own: Collection[str] = ()) -> str | None:
    """Returns what is read from outside by an event of a profiler; None: nothing, or not for the user.

    Args:
        frame: As a profiler has it, and so are `event` and `called`.
        event: "c_call", "call" or another.
        called: The function in C.
        own: Packages that the user's code is from, which may be installed ones.
    """
    if event == "c_call":
        try:
            if called not in _CALLS:
                return None
        except TypeError:  # a method of something that has no hash
            return None
        return _CALLS[called] if _is_for_the_user(frame, own) else None
    found = _CODES.get(id(frame.f_code)) if event == "call" else None
    if found is None or (found == _SEED and frame.f_locals.get("a") is not None):
        return None
    return found if _is_for_the_user(frame.f_back, own) else None


def _is_for_the_user(frame: FrameType | None, own: Collection[str]) -> bool:
    """Whether code is run for a function that is neither of a library nor called by a framework."""
    while frame is not None:
        module = frame.f_globals.get("__name__", "").partition(".")[0]
        if module in _FRAMEWORKS:
            if frame.f_code.co_name not in _CALLING:
                return False
        elif module in _BESIDES:
            return False
        elif module in own or not _is_installed(frame, module):
            return True
        frame = frame.f_back
    return False


def _is_installed(frame: FrameType, package: str) -> bool:
    of_python = package in sys.stdlib_module_names and package != "__main__"
    return of_python or is_installed(frame.f_code.co_filename)


@cache
def is_installed(path: str) -> bool:
    """Whether a file of code belongs to an installed package, of this environment or another one on its path."""
    return not {"site-packages", "dist-packages"}.isdisjoint(path.split(os.sep))


@contextmanager
def reads_from_outside(own: Collection[str]) -> Iterator[list[str]]:
    """Gives what this thread reads from outside within the block; see `read_from_outside`."""
    found: list[str] = []

    def profile(frame: FrameType, event: str, called: Any) -> None:  # some 100,000 times in a trace
        try:
            told = called in _CALLS if event == "c_call" else event == "call" and id(frame.f_code) in _CODES
        except TypeError:  # a method of something that has no hash
            return
        if told and (what := read_from_outside(frame, event, called, own)) is not None:
            found.append(what)

    with profiled_by(profile):
        yield found


@contextmanager
def profiled_by(profile: Callable[[FrameType, str, Any], None]) -> Iterator[None]:
    """Has this thread's events go to a profiler within the block; one that was there before goes on afterwards."""
    before: Any = sys.getprofile()
    sys.setprofile(profile)
    try:
        yield
    finally:
        if before is None or callable(before):
            sys.setprofile(before)
        else:  # a cProfile.Profile
            sys.setprofile(None)
            before.enable()
