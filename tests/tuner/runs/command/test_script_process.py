"""A program and its group: which numbers signals go to, and what it printed."""

import os
import signal
import sys
import time
from pathlib import Path

import pytest

from tuner.runs.command.script_process import ScriptProcess
from tuner.trial import system


def started(tmp_path: Path, body: str) -> ScriptProcess:
    return ScriptProcess([sys.executable, "-c", body], tmp_path, tmp_path, os.environ)


def test_once_it_has_ended_its_number_gets_no_signal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may be another's by then."""
    script = started(tmp_path, "raise SystemExit(3)")
    script.wait(10.0)
    assert script.status == 3
    groups: list[int] = []
    monkeypatch.setattr(os, "killpg", lambda group, number: groups.append(group))
    monkeypatch.setattr(os, "kill", lambda pid, number: groups.append(pid))
    script.end()
    assert groups == []


def test_what_it_leaves_in_its_group_ends_with_it(tmp_path: Path) -> None:
    body = "import subprocess; print(subprocess.Popen(['sleep', '60']).pid, flush=True)"
    script = started(tmp_path, body)
    script.wait(10.0)
    assert script.status == 0
    pid, deadline = int((tmp_path / "script-output.log").read_text()), time.monotonic() + 5.0
    while Path(f"/proc/{pid}").exists() and " Z " not in Path(f"/proc/{pid}/stat").read_text():
        assert time.monotonic() < deadline
        time.sleep(0.01)
    script.end()


LEAVES = """
import subprocess, sys, time
for hides in (False, True):  # a session of its own, also behind a parent that has ended
    code = "import subprocess; print(subprocess.Popen(['sleep', '60'], start_new_session=True).pid, flush=True)"
    subprocess.run([sys.executable, "-c", code], start_new_session=hides, check=True)
time.sleep(float(sys.argv[1]))
sys.exit(int(sys.argv[2]))
"""


@pytest.mark.parametrize(("seconds", "status"), [(0, 0), (0, 3), (60, 0)])
def test_what_has_left_its_session_ends_with_it(seconds: int, status: int, tmp_path: Path) -> None:
    """Also outside of a trial, whose process would look after it."""
    words = [sys.executable, "-c", LEAVES, str(seconds), str(status)]
    script, other = (
        ScriptProcess(words, tmp_path, tmp_path, os.environ),
        started(tmp_path, "import time; time.sleep(60)"),
    )
    deadline, pids = time.monotonic() + 20.0, list[str]()
    while len(pids) < 2 or (script.status is None and not seconds):
        assert time.monotonic() < deadline
        pids = (tmp_path / "script-output.log").read_text().split()
        script.wait(0.05)
    assert all(system.start_time(int(pid)) for pid in pids)
    script.end()
    assert not any(system.start_time(int(pid)) for pid in pids)
    assert script.status == (-signal.SIGTERM if seconds else status)
    assert other.status is None, "another one is left alone"
    other.end()


def test_what_earlier_ones_printed_is_kept_and_is_not_its_last_line(tmp_path: Path) -> None:
    for text in ("one", "two"):
        script = started(tmp_path, f"print({text!r})")
        script.wait(10.0)
        assert script.tail() == text
        script.end()
    assert (tmp_path / "script-output.log").read_text() == "one\ntwo\n"


def test_its_output_goes_to_no_link(tmp_path: Path) -> None:
    (tmp_path / "script-output.log").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match=r"script-output\.log"):
        started(tmp_path, "print(1)")
