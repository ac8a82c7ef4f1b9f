"""Ctrl-C while modules are imported, which takes seconds: it ends the command at once and in silence.

Standard library only.
"""

import os
import signal
from types import FrameType

EXIT_INTERRUPTED = 130


def begin_imports() -> None:
    """Nothing has been begun, and an exception within an import may come out as anything: Ctrl-C leaves."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # else it is ignored, as behind `nohup`
        signal.signal(signal.SIGINT, _leave)


def begin_work() -> None:
    """From here on there is something to be brought to an end: Ctrl-C is a KeyboardInterrupt again."""
    if signal.getsignal(signal.SIGINT) is _leave:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _leave(number: int, frame: FrameType | None) -> None:
    os._exit(EXIT_INTERRUPTED)
