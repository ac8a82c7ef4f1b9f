"""Keeps a helper process from holding up the end of this one."""

import threading
import time
from contextlib import suppress

import psutil


def kill_at_exit(name: str, grace_s: float) -> None:
    """See to it that child processes of that name live at most `grace_s` seconds longer than the main thread.

    For helpers that the exit hook of some library waits for without a limit. Nothing happens where they end in time.
    """
    threading.Thread(target=_watch, args=(name, grace_s), name=f"watchdog-{name}", daemon=True).start()


def _watch(name: str, grace_s: float) -> None:
    threading.main_thread().join()  # it counts as ended when the interpreter begins to shut down, before its exit hooks
    time.sleep(grace_s)
    for child in psutil.Process().children():
        with suppress(psutil.Error):
            if child.name() == name:
                child.kill()
