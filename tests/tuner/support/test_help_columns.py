"""Text in a terminal and in a pipe."""

import io

import pytest
from rich.table import Table

from tuner.support.console import PlainConsole
from tuner.support.help_columns import in_columns

LONG = "words " * 40 + "/a/path/that/somebody/copies/from/here"


def test_text_that_is_too_long_goes_on_below_its_beginning() -> None:
    rows = [("one", "a text of more words than fit"), ("much_too_long", "beside"), ("alone", "")]
    assert in_columns(rows, first=6, width=36) == [
        "  one     a text of more words than",
        "          fit",
        "  much_too_long",
        "          beside",
        "  alone",
    ]
    assert in_columns(rows[:1], first=6, width=None) == ["  one     a text of more words than fit"]


def test_in_a_narrow_terminal_texts_stand_below_their_names() -> None:
    rows = [("tuner train", "one run"), ("a=[1,22,333]", "a text of many words"), ("", "more"), ("x" * 20, "")]
    assert in_columns(rows, first=6, width=12) == [
        "  tuner",
        "  train",
        "    one run",
        "  a=[1,22,",
        "  333]",
        "    a text",
        "    of many",
        "    words",
        "    more",
        "  xxxxxxxxx",
        "  xxxxxxxxx",
        "  xx",
    ]


def test_what_can_be_copied_is_not_broken() -> None:
    assert in_columns([("", "see /some-where/else-where/x.y now")], first=0, width=24) == [
        "    see",
        "    /some-where/else-where/x.y",
        "    now",
    ]


@pytest.mark.parametrize("columns", [None, "80"])
def test_a_pipe_gets_each_text_in_one_line(monkeypatch: pytest.MonkeyPatch, columns: str | None) -> None:
    if columns is not None:
        monkeypatch.setenv("COLUMNS", columns)
    pipe = io.StringIO()
    console = PlainConsole(file=pipe)
    console.print(LONG)
    table = Table("what", "why", show_edge=False)
    table.add_row("1", LONG)
    console.print(table)
    assert pipe.getvalue().count(LONG) == 2
    assert len(pipe.getvalue().splitlines()) == 4


def test_a_terminal_has_its_width() -> None:
    terminal = io.StringIO()
    PlainConsole(file=terminal, width=40).print(LONG)
    assert max(map(len, terminal.getvalue().splitlines())) <= 40


def test_what_is_no_terminal_gets_no_blanks_at_the_ends_of_lines() -> None:
    pipe = io.StringIO()
    table = Table("name", "value")
    table.add_row("gamma", "0.99")
    console = PlainConsole(file=pipe)
    console.print("two ", end="")
    console.print("words")
    console.print(table)
    lines = pipe.getvalue().split("\n")
    assert all(line == line.rstrip(" ") for line in lines)
    assert lines[0] == "two words"
    assert any("gamma" in line and "0.99" in line for line in lines)
    assert lines[-1] == ""
