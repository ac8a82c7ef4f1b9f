"""The console script, before anything is imported: Ctrl-C in the seconds that takes ends it at once and in silence.

Standard library only.
"""

import os
import signal
from types import FrameType

EXIT_INTERRUPTED = 130


def main() -> int:
    """Imports the command line and runs it.

    Returns:
        The exit status.
    """
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # else it is ignored, as behind `nohup`
        signal.signal(signal.SIGINT, _leave)
    from tuner.cli import main as run

    return run()


def begin_work() -> None:
    """From here on there is something to be brought to an end: Ctrl-C is a KeyboardInterrupt again."""
    if signal.getsignal(signal.SIGINT) is _leave:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _leave(number: int, frame: FrameType | None) -> None:
    """Nothing has been begun, and an exception within an import may come out as anything."""
    os._exit(EXIT_INTERRUPTED)
