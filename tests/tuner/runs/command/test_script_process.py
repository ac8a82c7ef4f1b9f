"""A program and its group: which numbers signals go to, and what it printed."""

import os
import sys
import time
from pathlib import Path

import pytest

from tuner.runs.command.script_process import ScriptProcess


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
