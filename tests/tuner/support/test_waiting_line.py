"""The work of a command is named in the terminal before it has anything to show."""

import io
import sys

import pytest

import tuner.__main__ as program
from tuner.support import waiting_line

ERASED = "\r\x1b[K"


class Terminal(io.StringIO):
    """Standard output and error in one, as a person sees them."""

    def isatty(self) -> bool:
        return True


def a_terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """Called within a test: pytest puts its own streams back behind a fixture."""
    shown = Terminal()
    monkeypatch.setattr(sys, "stdout", shown)
    monkeypatch.setattr(sys, "stderr", shown)
    monkeypatch.setenv("TERM", "xterm")
    return shown


@pytest.mark.parametrize("name", ["stdout", "stderr"])
def test_the_first_text_erases_the_line(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    terminal = a_terminal(monkeypatch)
    waiting_line.show("reading")
    waiting_line.change("loading")
    stream = getattr(sys, name)
    print("trained", file=stream)
    print("again", file=stream)
    waiting_line.change("measuring")
    waiting_line.erase()
    assert terminal.getvalue() == f"{ERASED}reading ...{ERASED}loading ...{ERASED}trained\nagain\n"
    assert sys.stdout is sys.stderr is terminal


def test_streams_are_as_they_were_but_for_the_line(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = a_terminal(monkeypatch)
    waiting_line.show("reading")
    assert sys.stdout.isatty()
    sys.stdout.write("")
    assert terminal.getvalue() == f"{ERASED}reading ..."
    sys.stderr.writelines(["a", "b"])
    assert terminal.getvalue() == f"{ERASED}reading ...{ERASED}ab"


@pytest.mark.parametrize("is_dumb", [False, True])
def test_what_is_no_terminal_gets_no_line(monkeypatch: pytest.MonkeyPatch, is_dumb: bool) -> None:
    shown = Terminal() if is_dumb else io.StringIO()
    monkeypatch.setattr(sys, "stderr", shown)
    monkeypatch.setenv("TERM", "dumb" if is_dumb else "xterm")
    waiting_line.show("reading")
    waiting_line.change("loading")
    assert (sys.stderr, shown.getvalue()) == (shown, "")


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        (["train"], f"{ERASED}reading the configuration ...{ERASED}"),
        (["train", "--help"], ""),
        (["-sc", "install=bash"], ""),
    ],
)
def test_a_command_begins_with_it(monkeypatch: pytest.MonkeyPatch, typed: list[str], expected: str) -> None:
    terminal = a_terminal(monkeypatch)
    monkeypatch.setattr(sys, "argv", ["tuner", *typed])
    for name in ("begin_imports", "end_work"):
        monkeypatch.setattr(program, name, lambda: None)
    monkeypatch.setattr("tuner.cli.main", lambda: 3)
    assert program.main() == 3
    assert terminal.getvalue() == expected
