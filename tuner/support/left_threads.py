"""Threads that are still running when a command has done its work, such as those of a user's environment.

Python waits for each thread that is no daemon, and so for ever where one has no end.
"""

import logging
import os
import sys
import threading
import time

_PATIENCE_S = 5.0  # for threads that are about to end


def end_without_threads(status: int) -> None:
    """Ends the process with this status, though a thread that is no daemon has no end; called last of all.

    Threads have some seconds to end by themselves. Then a line names those that are left; what is registered with
    `atexit` is not done. Where no thread is left, Python ends as always.
    """
    if _left():
        threading.Thread(target=_end, args=(status,), daemon=True).start()


def _left() -> list[threading.Thread]:
    main = threading.main_thread()
    return [one for one in threading.enumerate() if one is not main and not one.daemon]


def _end(status: int) -> None:
    until = time.monotonic() + _PATIENCE_S
    while time.monotonic() < until:
        if not _left():
            return
        time.sleep(0.05)
    if not (left := _left()):
        return
    names = ", ".join(dict.fromkeys(one.name for one in left))
    sys.stderr.write(
        f"the command is done, but code that it called has left a thread running ({names}): ended without waiting for "
        "it; end such a thread in close() of the environment, or start it with daemon=True\n"
    )
    logging.shutdown()
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(status)
