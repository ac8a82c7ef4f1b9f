"""A command ends, whatever threads are left."""

import subprocess
import sys

import pytest

_PROGRAM = """
import atexit, sys, threading, time
from tuner.support import left_threads
left_threads._PATIENCE_S = 0.3
atexit.register(lambda: print("put away"))
{start}
print("written")
left_threads.end_without_threads(3)
sys.exit(3)
"""
_ENDLESS = "threading.Thread(target=lambda: threading.Event().wait(), name='sensor').start()"
_SHORT = "threading.Thread(target=lambda: (time.sleep(0.1), print('measured'))).start()"
_DAEMON = "threading.Thread(target=lambda: threading.Event().wait(), daemon=True).start()"


def ended(start: str) -> subprocess.CompletedProcess[str]:
    program = [sys.executable, "-c", _PROGRAM.format(start=start)]
    return subprocess.run(program, capture_output=True, text=True, timeout=60)


def test_a_thread_without_an_end_is_named_and_the_program_ends_with_its_status() -> None:
    done = ended(_ENDLESS)
    assert done.returncode == 3
    assert "left a thread running (sensor): ended without waiting for it" in done.stderr
    assert done.stdout == "written\n"


@pytest.mark.parametrize(
    ("start", "printed"),
    [(_SHORT, "written\nmeasured\nput away\n"), (_DAEMON, "written\nput away\n"), ("", "written\nput away\n")],
)
def test_nothing_is_said_where_python_ends_by_itself(start: str, printed: str) -> None:
    done = ended(start)
    assert (done.returncode, done.stdout, done.stderr) == (3, printed, "")
