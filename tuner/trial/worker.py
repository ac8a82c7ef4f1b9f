"""The child of a trial: from the socket it is given to result.json, its very last act.

Runs in a process of its own, forked from the fork server or started afresh. Whatever the entry function does ends as
a value in result.json; what cannot be written there (a kill, a segmentation fault) the controller reads off the
process.
"""

import contextlib
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
from tuner.trial.messages import Outcome, Started, TrialInterrupted, TrialResult, TrialSpec
from tuner.trial.workplace import EXIT_REFUSED, Workplace, end_process, flush_output

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
    workplace = Workplace(line)
    spec, folder = workplace.enter(launch)
    began = launch.asked_at if math.isnan(began) else began
    _limit_threads(spec.threads)

    def next_trial(result: TrialResult) -> tuple[TrialSpec, Path, float]:
        launch = workplace.wait(result)
        try:
            spec, folder = workplace.enter(launch)
        except BaseException:  # noqa: BLE001 - a failure of the worker, as in main(): the trial has not begun
            traceback.print_exc()
            end_process(EXIT_FAILED)
        line.send(_started())
        return spec, folder, launch.asked_at

    context = TrialContext(spec, folder, line, began, next_trial if launch.may_wait else None)
    signal.signal(signal.SIGTERM, lambda *_: line.end("stopped by SIGTERM"))
    line.send(_started())
    workplace.leave(run_entry(context, lambda: _resolve(spec, function)))


def _started() -> Started:
    return Started(os.getpid(), os.uname().nodename)


def run_entry(context: TrialContext, find: Callable[[], TrialEntry]) -> TrialResult:
    """Runs a trial's entry to whatever end it comes. A traceback goes whole to the output, and cut into the result.

    Args:
        context: The trial.
        find: Finds what to call; may import it.
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
    return TrialResult(
        outcome, reason, trace, time.monotonic() - context.began, deterministic, context.used, context.steps
    )


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
    flush_output()
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
