"""When a helper process that holds up the end is given up."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tuner.trackers.watchdog import Patience, waits_for_machine


def test_a_helper_is_given_up_after_looks_at_which_it_did_nothing() -> None:
    patience = Patience(3)
    assert [patience.is_over("idle", 1.0, False) for _ in range(5)] == [False, False, False, True, True]
    used = (1.0, 1.0, 1.0, 1.5, 1.5, 1.5, 1.5, 1.5)
    assert [patience.is_over("slow", seconds, False) for seconds in used] == [False] * 7 + [True]
    waits = (False, False, False, True, False, False, False, False)  # a busy machine gave it no processor
    assert [patience.is_over("starved", 1.0, is_waiting) for is_waiting in waits] == [False] * 7 + [True]


def test_a_process_that_could_run_is_distinguished_from_one_that_waits_for_others() -> None:
    script = "import sys; print(flush=True)\nif sys.argv[1] == 'busy':\n while True: pass\nsys.stdin.read()"
    for kind, waits in (("busy", True), ("idle", False)):
        command = [sys.executable, "-c", script, kind]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            process.stdout.readline()
            while not waits and waits_for_machine(process.pid):
                """It is about to wait."""
            assert waits_for_machine(process.pid) is waits
            process.send_signal(signal.SIGSTOP)
            while waits_for_machine(process.pid):
                """It is about to stop."""
            process.kill()
    assert not waits_for_machine(process.pid)


def test_a_process_that_ends_while_it_is_looked_at_waits_for_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def gone(self: Path, pattern: str) -> None:
        raise FileNotFoundError(f"{self} has just gone")

    monkeypatch.setattr(Path, "glob", gone)
    assert not waits_for_machine(os.getpid())
