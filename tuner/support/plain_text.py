"""Text from outside made fit to be shown and kept: of limited length, without control characters.

What a trial, a configuration or a storage says may be anything: megabytes, terminal escapes, halves of characters. It
is made plain once, where it enters, so that terminal, database, report and trackers need not think of it. Standard
library only, as the fork server loads this.
"""

import re
import traceback
from collections.abc import Mapping
from typing import Any, Final

MAX_NAME: Final = 200
"""Characters of the name of a metric."""

MAX_REASON: Final = 500
"""Characters of a reason, which stands in tables."""

MAX_TRACEBACK: Final = 20_000
"""Characters of a traceback that is kept with a result."""

MAX_MESSAGE: Final = 5_000
"""Characters of what is said in a terminal."""

_COLOURS = re.compile(r"\x1b\[[\d;:]*m")
_HARMFUL = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f"  # C0 but tab and newline, DEL, C1: with them begin all terminal escapes
    r"\u2028\u2029"  # line ends to some readers of JSON and JavaScript
    r"\u202a-\u202e\u2066-\u2069"  # turn the direction of what follows
    r"\ud800-\udfff]"  # halves of characters: no file and no database takes them
)
_LONG_WORD = re.compile(r"\S{500,}")
_WITHOUT_A_WORD = "(its own text cannot be had)"


def printable(text: str) -> str:
    r"""The text with control characters and surrogates as Python writes them (`\x1b`); newlines and tabs stay.

    Colours of a terminal are left out.
    """
    text = _COLOURS.sub("", text.replace("\r\n", "\n"))
    return _HARMFUL.sub(lambda match: match[0].encode("unicode_escape").decode("ascii"), text)


def printable_copy(value: Any) -> Any:
    """A copy of plain data with all texts in it, keys included, as `printable`."""
    if isinstance(value, str):
        return printable(value)
    if isinstance(value, Mapping):
        return {printable(str(key)): printable_copy(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(map(printable_copy, value))
    return value


def plain(text: str, limit: int, whole: str = "") -> str:
    """The text as `printable`, and no longer than a limit: of more the first third and the last two are kept.

    Making text plain that is so already changes nothing.

    Args:
        text: Anything.
        limit: Characters, at least 200.
        whole: Where all of it is, for the note that stands in place of what is left out.
    """
    if len(text) <= limit:
        cleaned = printable(text)
        if len(cleaned) <= limit:
            return cleaned
        text = cleaned
    place = f"; all of it is in {whole}" if whole else ""
    note = f" [... {len(text) - limit:,} characters left out{place} ...] "
    kept = limit - len(note)
    head = kept // 3
    return printable(text[:head])[:head] + note + printable(text[head - kept :])[head - kept :]


def with_short_words(text: str) -> str:
    """The text with words of no sensible length made shorter: a key of kilobytes must not fill the terminal."""
    return _LONG_WORD.sub(lambda match: plain(match[0], MAX_NAME), text)


def one_line(text: str, limit: int = MAX_REASON, whole: str = "") -> str:
    """The first line of a text that is not empty, plain."""
    return plain(text.strip().partition("\n")[0].rstrip(), limit, whole)


def shortened(text: str, most_chars: int) -> str:
    """Returns a label cut to a number of characters."""
    return text if len(text) <= most_chars else f"{text[: most_chars - 1]}…"


def message_of(error: BaseException) -> str:
    """Message of an exception; a substitute if it cannot even be formatted. Not made plain."""
    try:
        return str(error)
    except BaseException:  # noqa: BLE001 - the exception is the user's own, and so is the code of its __str__
        return _WITHOUT_A_WORD


def describe_error(error: BaseException, whole: str = "") -> str:
    """`KeyError: 'gamma'`, in one plain line.

    Args:
        error: Anything that was raised.
        whole: Where its traceback is.
    """
    text = message_of(error).strip().partition("\n")[0]
    return plain(f"{type(error).__name__}: {text}".removesuffix(": "), MAX_REASON, whole)


def traceback_of(error: BaseException) -> str:
    """The whole traceback as text; of an exception that breaks Python's own formatting, its frames. Not made plain."""
    try:
        return "".join(traceback.format_exception(error))
    except BaseException:  # noqa: BLE001 - it calls code of the exception's own, such as attributes of a SyntaxError
        frames = "".join(traceback.format_tb(error.__traceback__))
        return f"Traceback (most recent call last):\n{frames}{describe_error(error)}\n"
