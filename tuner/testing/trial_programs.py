"""Trials for the tests of executors. Imports no framework: trial processes import it by its name."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time

from tuner.errors import UserError
from tuner.trial.context import TrialContext
from tuner.trial.messages import TrialInterrupted

CHECKPOINT = "saved.txt"
NOTE = "note.json"


def complete(context: TrialContext) -> None:
    """Says everything that a trial can say, and comes to its end."""
    context.built({**context.spec.config, "used": True})
    context.log(3, {"loss": 0.5, "bad": float("nan")})
    context.alive(0.5)
    for step in (0.25, 0.5, 1.0):
        context.report(step, 10 * step)


def go_on(context: TrialContext) -> None:
    """Notes what an earlier attempt has reported, and reports the same steps with other values."""
    (context.folder / NOTE).write_text(json.dumps(context.reported))
    for step in (0.5, 1.0):
        context.report(step, 100.0)


def fail(context: TrialContext) -> None:
    """Raises an error."""
    raise KeyError("no such key")


def refuse(context: TrialContext) -> None:
    """Raises an error for the user, which comes again however often it is tried."""
    raise UserError("the function has no score")


def diverge(context: TrialContext) -> None:
    """Reports what is no number."""
    context.report(0.5, 1.0)
    context.report(1.0, float("nan"))


def ignore(context: TrialContext) -> None:
    """Catches the verdict and goes on, as careless code may."""
    with contextlib.suppress(TrialInterrupted):
        context.report(0.5, 1.0)


def die(context: TrialContext) -> None:
    """Is killed."""
    os.kill(os.getpid(), signal.SIGKILL)


def hang(context: TrialContext) -> None:
    """Gives no sign of life."""
    while True:
        time.sleep(0.05)


def hoard(context: TrialContext) -> None:
    """Starts a process in a session of its own that takes 600 MB, and waits for it."""
    program = "import time; held = b'x' * 600_000_000; time.sleep(600)"
    with subprocess.Popen([sys.executable, "-c", program], start_new_session=True) as process:
        while process.poll() is None:
            context.alive(0.5)
            time.sleep(0.05)


def work_on(context: TrialContext) -> None:
    """Works until it is ended, and saves what it has."""
    try:
        context.report(0.1, 1.0)
        while True:
            context.alive(0.2)
            time.sleep(0.01)
    except TrialInterrupted as interruption:
        (context.folder / CHECKPOINT).write_text(interruption.outcome)
        raise
