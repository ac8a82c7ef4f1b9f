import io
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.table import Table
from rich.text import Text

from tests.tuner.studies import definition
from tuner.commands.tracebacks import describe_crash
from tuner.errors import UserError
from tuner.reporting.markup import tag
from tuner.support.console import PlainConsole
from tuner.support.plain_text import (
    describe_error,
    one_line,
    plain,
    printable,
    printable_copy,
    traceback_of,
    with_short_words,
)

HARMFUL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
ANYTHING = st.text(st.characters(codec=None), max_size=2000)


@given(ANYTHING)
def test_printable_text_holds_nothing_harmful_and_is_left_as_it_is(text):
    cleaned = printable(text)
    assert not HARMFUL.search(cleaned)
    assert printable(cleaned) == cleaned
    assert cleaned.encode() == cleaned.encode("utf-8")


@given(ANYTHING, st.integers(200, 900))
def test_plain_text_keeps_to_its_limit_and_is_left_as_it_is(text, limit):
    cut = plain(text, limit, "output.log")
    assert len(cut) <= limit
    assert not HARMFUL.search(cut)
    assert plain(cut, limit, "output.log") == cut


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("läuft, 中文, emoji 👩‍💻, a\u00a0space", "läuft, 中文, emoji 👩‍💻, a\u00a0space"),
        ("\tone\r\ntwo\n", "\tone\ntwo\n"),
        ("\x1b[1;31mred\x1b[0m", "red"),
        ("\x1b[2J\x1b]0;title\x07", "\\x1b[2J\\x1b]0;title\\x07"),
        ("50 %\r100 %", "50 %\\r100 %"),
        ("\x00\x7f\x9b", "\\x00\\x7f\\x9b"),
        ("\ud83d", "\\ud83d"),
        ("\u202egnp.exe", "\\u202egnp.exe"),
    ],
)
def test_what_is_left_and_what_is_written_out(text, shown):
    assert printable(text) == shown


def test_a_cut_keeps_head_and_tail_and_says_how_much_is_missing_and_where_it_is():
    cut = plain("A" * 1000 + "B" * 98_000 + "C" * 1000, 300, "output.log")
    assert len(cut) == 300
    assert re.fullmatch(r"A+ \[\.\.\. 99,700 characters left out; all of it is in output\.log \.\.\.\] C+", cut), cut
    assert cut.count("C") > cut.count("A") > 60, "errors stand at the end"


def test_one_line_is_the_first_that_says_something():
    assert one_line("\n\n  first\nsecond") == "first"


class Silent(Exception):  # noqa: N818
    def __str__(self):
        raise KeyboardInterrupt


def test_errors_without_a_readable_text_are_described_nevertheless():
    assert describe_error(Silent()) == "Silent: (its own text cannot be had)"
    assert describe_error(KeyError()) == "KeyError"
    with pytest.raises(Silent) as caught:
        raise Silent
    assert "raise Silent" in traceback_of(caught.value)
    assert "raise Silent" in describe_crash(caught.value)


def test_a_crash_is_shown_within_limits():
    try:
        raise ValueError("HEAD\x1b[2J" + "x" * 1_000_000 + "TAIL")
    except ValueError as error:
        shown = describe_crash(error)
    assert len(shown) < 25_000
    assert "HEAD\\x1b[2J" in shown
    assert "TAIL" in shown
    assert "characters left out" in shown


def test_copies_are_plain_down_to_the_keys():
    copied = printable_copy({"a\x1b": ["\ud800", 1, None, ("x\x07",)], 2: 0.5})
    assert copied == {"a\\x1b": ["\\ud800", 1, None, ("x\\x07",)], "2": 0.5}


@pytest.mark.parametrize("is_terminal", [True, False])
def test_a_console_shows_escapes_and_obeys_none_of_them(is_terminal):
    stream = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")  # which refuses halves of characters
    console = PlainConsole(file=stream, force_terminal=is_terminal, width=100)
    table = Table("a\x1b[2Jheading")
    table.add_row(Text("cell\x1b]0;x\x07\ud800"))
    console.print(table, "plain\x9b31m", Text("text\x1b[8m"), "[bold]ours[/bold]", "12 steps")
    stream.seek(0)
    shown = stream.read()
    for told in ("a\\x1b[2J", "cell\\x1b]", "plain\\x9b31m", "text "):
        assert told in shown
    assert ("\x1b[1mours" in shown) == is_terminal, "our own colours stay"
    assert "12 steps" in shown, "nothing is coloured that was not asked to be"
    assert set(re.findall("\x1b.", shown)) <= {"\x1b["}


def test_pages_show_escapes_as_text():
    assert tag("td", "<\x1b[2J\ud800>", title="\x9b") == '<td title="\\x9b">&lt;\\x1b[2J\\ud800&gt;</td>'


@pytest.mark.parametrize("name", ["a\x1b[2J", "two\nlines", "half\ud800", "\u202egnp", "x" * 300])
def test_a_study_is_called_by_what_can_be_shown_and_is_a_folder(tmp_path, name):
    with pytest.raises(UserError, match=r"study\.name="):
        definition(tmp_path, name=name)
    assert list(tmp_path.iterdir()) == []


def test_a_word_of_kilobytes_is_shortened_and_a_path_is_not():
    path = "/" + "folder/" * 60
    assert with_short_words(f"no run in {path}") == f"no run in {path}"
    shortened = with_short_words(f"unknown key {'[' * 35_000}eps; there is eps")
    assert shortened.startswith("unknown key [[[")
    assert shortened.endswith("eps; there is eps")
    assert len(shortened) < 300
    assert "characters left out" in shortened
