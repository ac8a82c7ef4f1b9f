"""The child of a trial: from the socket it is given to result.json, its very last act.

Runs in a process of its own, forked from the fork server or started afresh. Whatever the entry function does ends as
a value in result.json; what cannot be written there (a kill, a segmentation fault) the controller reads off the
process.
"""

import contextlib
import faulthandler
import importlib
import importlib.util
import math
import os
import pickle
import signal
import socket
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn, TypeAlias

from tuner.errors import UserError
from tuner.support.plain_text import describe_error, message_of, traceback_of
from tuner.support.text_files import open_to_append
from tuner.trial import folder as files
from tuner.trial import orphans
from tuner.trial.child_end import EXIT_FAILED
from tuner.trial.context import ControllerConnection, TrialContext, current_trial, set_current_trial
from tuner.trial.messages import Outcome, Refused, Started, TrialInterrupted, TrialResult, TrialSpec
from tuner.trial.wire import Launch

__all__ = [
    "EXIT_FAILED",
    "EXIT_REFUSED",
    "TrialContext",
    "TrialInterrupted",
    "current_trial",
    "import_entry",
    "main",
    "run_entry",
]

TrialEntry: TypeAlias = Callable[[TrialContext], object]

EXIT_REFUSED = 75  # as EX_TEMPFAIL: another process has the folder
LOCK_PATIENCE_S = 1.0

_OUT_OF_MEMORY_NAMES = {"MemoryError", "OutOfMemoryError", "ResourceExhaustedError"}
_OUT_OF_MEMORY_TEXTS = ("can't allocate memory", "RESOURCE_EXHAUSTED")
_DIVERGED_NAMES = {"DivergedError", "FloatingPointError"}


def main(control: int, began: float = math.nan) -> NoReturn:
    """Runs one trial in this process, which founded its own session, and ends the process with its whole group.

    Args:
        control: Descriptor of the socket to the controller.
        began: `time.monotonic()` just before the fork; not given, the time when the controller asked for the child.
    """
    assert os.getpgrp() == os.getpid(), "a trial's process leads its own group: it ends the whole of it"
    orphans.become_subreaper()
    try:
        _work(ControllerConnection(socket.socket(fileno=control)), began)
    except BaseException:  # noqa: BLE001 - the border of the process: a failure of the worker itself, such as a full disk
        traceback.print_exc()
    finally:
        orphans.end_children()
        os._exit(EXIT_FAILED)


def _work(line: ControllerConnection, began: float) -> NoReturn:
    _ignore_interrupts()
    received = line.read_launch()
    if received is None:
        os._exit(EXIT_FAILED)  # the controller has gone: there is nothing to do and nobody to tell
    launch, function = received
    folder = Path(launch.folder)
    _redirect(folder)
    lock = files.acquire_lock(folder, LOCK_PATIENCE_S)
    if lock is None:
        line.send(Refused(f"another process runs this trial in {folder}"))
        os._exit(EXIT_REFUSED)
    _keep_to_this_process(lock, line)
    files.claim(folder)
    _enter(launch)
    began = launch.asked_at if math.isnan(began) else began
    spec = TrialSpec.from_json((folder / files.SPEC_FILE).read_text())
    _limit_threads(spec.threads)
    context = TrialContext(spec, folder, line, began)
    signal.signal(signal.SIGTERM, lambda *_: line.end("stopped by SIGTERM"))
    line.send(Started(os.getpid(), os.uname().nodename))
    result = run_entry(context, lambda: _resolve(spec, function), began)
    _flush()
    files.write_result(folder, result)
    orphans.end_children()  # also those that have left the group
    os.killpg(os.getpgrp(), signal.SIGKILL)  # takes along whatever the trial has started; the result is written
    raise AssertionError("still alive after SIGKILL")


def run_entry(context: TrialContext, find: Callable[[], TrialEntry], began: float) -> TrialResult:
    """Runs a trial's entry to whatever end it comes. A traceback goes whole to the output, and cut into the result.

    Args:
        context: The trial.
        find: Finds what to call; may import it.
        began: `time.monotonic()` at the trial's start.
    """
    set_current_trial(context)
    deterministic = False
    try:
        context.check()
        find()(context)
        outcome, reason, trace = Outcome.COMPLETE, context.remark, ""
        if context.interruption is not None:
            outcome, reason = context.interruption.outcome, context.interruption.reason
    except BaseException as error:  # noqa: BLE001 - the border of the process: every end of the entry becomes a result
        outcome, reason = _classify(error)
        deterministic = isinstance(error, UserError)
        trace = "" if isinstance(error, TrialInterrupted) else traceback_of(error)
        _append_to_output(context.folder, trace)
    context.close()
    return TrialResult(outcome, reason, trace, time.monotonic() - began, deterministic, context.used, context.steps)


def _classify(error: BaseException) -> tuple[Outcome, str]:
    """Names an exception. By class names, as the frameworks' own classes cannot be imported here."""
    if isinstance(error, TrialInterrupted):
        return error.outcome, error.reason
    reason = describe_error(error, whole=files.OUTPUT_FILE)
    names = {kind.__name__ for kind in type(error).__mro__}
    if names & _OUT_OF_MEMORY_NAMES:
        return Outcome.OUT_OF_MEMORY, reason
    if isinstance(error, RuntimeError) and any(text in message_of(error) for text in _OUT_OF_MEMORY_TEXTS):
        return Outcome.OUT_OF_MEMORY, reason
    if names & _DIVERGED_NAMES:
        return Outcome.DIVERGED, reason
    return Outcome.CRASHED, reason


def _append_to_output(folder: Path, trace: str) -> None:
    _flush()
    path = folder / files.OUTPUT_FILE
    with contextlib.suppress(OSError), open_to_append(path) as output:
        output.write(trace.encode(errors="backslashreplace"))  # if the disk is full, what follows reports that


def _resolve(spec: TrialSpec, function: bytes) -> TrialEntry:
    """Returns what to call: the pickled function, or the spec's entry by its import path."""
    if function:
        called: TrialEntry = pickle.loads(function)
        return called
    return import_entry(spec.entry)


def import_entry(path: str) -> TrialEntry:
    """Returns the function that "module:function" names."""
    module, _, name = path.partition(":")
    entry: TrialEntry = getattr(importlib.import_module(module), name)
    return entry


def _ignore_interrupts() -> None:
    """Ctrl-C in a terminal is the controller's business; a mask that a caller's thread had set is not inherited."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def _redirect(folder: Path) -> None:
    """Points stdin to nothing, stdout and stderr to the end of output.log, for C code and child processes too."""
    _flush()
    null = os.open(os.devnull, os.O_RDONLY)
    output = os.open(folder / files.OUTPUT_FILE, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o644)
    for source, targets in ((null, (0,)), (output, (1, 2))):
        for target in targets:
            os.dup2(source, target)
        os.close(source)
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(encoding="utf-8", errors="backslashreplace", line_buffering=True)  # type: ignore[union-attr]
    faulthandler.enable()  # a segmentation fault leaves a traceback in the output
    faulthandler.register(signal.SIGUSR1)  # so does a hang: the controller sends this before it ends a silent trial


def _keep_to_this_process(lock: int, line: ControllerConnection) -> None:
    """Has processes that the trial forks close the lock and the line: neither may outlive the trial in them."""
    os.register_at_fork(after_in_child=lambda: os.close(lock))
    os.register_at_fork(after_in_child=line.detach)


def _enter(launch: Launch) -> None:
    """Takes over the controller's environment, module path and working directory."""
    os.environ.clear()
    os.environ.update(launch.environment)
    sys.path[:] = launch.path
    importlib.invalidate_caches()
    os.chdir(launch.cwd)


def _limit_threads(threads: int) -> None:
    """Holds libraries that are loaded already to the trial's threads; later ones read the environment.

    Also draws a new state for NumPy's global generator, which forked children would otherwise share.
    """
    numpy, torch = sys.modules.get("numpy"), sys.modules.get("torch")
    if numpy is not None:
        numpy.random.seed()
    if torch is not None:
        torch.set_num_threads(threads)
    if threads > 1 and importlib.util.find_spec("threadpoolctl") is not None:
        importlib.import_module("threadpoolctl").threadpool_limits(threads)  # the fork server loaded BLAS with one


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):  # a full disk, a stream that the entry has closed
            stream.flush()
