"""Overrides that Hydra's grammar cannot read: the most likely mistake, and the line that was meant.

A correction is only offered if it can be read, so each is tried in turn.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import HydraException

from tuner.config.overrides import to_hydra
from tuner.errors import UserError
from tuner.support.passwords import without_password

_ALIKE: Final = {
    **dict.fromkeys(map(ord, "\u2212\u2013\u2014\u2010\u2011"), "-"),
    **dict.fromkeys(map(ord, "\u201c\u201d\u201e\xab\xbb"), '"'),
    **dict.fromkeys(map(ord, "\u2018\u2019"), "'"),
    **{ord("\uff1d"): "=", ord("\xa0"): " ", ord("\uff0c"): ",", ord("\uff1a"): ":"},
}
"""Signs that word processors and web pages put in the place of those of a keyboard."""

_QUOTED: Final = re.compile(r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"")
_LISTED_SETTINGS: Final = re.compile(r"\[([^\[\]{}'\"=,]+=[^\[\]{}'\"]*)\]")
_CALL: Final = re.compile(r"(\w+)\(.*\)", re.DOTALL)
_CLOSING: Final = {"[": "]", "{": "}", "(": ")"}
_ARGUMENTS: Final = {
    "choice": "choice(a,b)",
    "range": "range(1,10)",
    "interval": "interval(0.1,0.9), with two numbers",
    "tag": "tag(log,interval(0.001,0.1))",
    "glob": "glob(*)",
}


def refusal_of(words: Sequence[str], word: str) -> UserError:
    """The error for an override that cannot be read.

    Args:
        words: All that was typed.
        word: One of them.
    """
    shown = without_password(word)
    if word.startswith("--"):
        return UserError(
            f"{shown} is for the command line: from Python, config_dir=... names a folder of your own groups"
        )
    said = _about_spaces(words, word) or _about_bare_word(word) or _about_function(word)
    if not said:
        found = next(_corrections(word), None)
        said = "settings are written KEY=VALUE" if found is None else f"{found[0]}: type {_in_shell(found[1])}"
    return UserError(f"cannot read {shown!r}: {without_password(said)}")


def _about_spaces(words: Sequence[str], word: str) -> str:
    """`agent = ppo`, `agent= ppo` and `agent =ppo` reach a program in pieces."""
    at = list(words).index(word) if word in words else -1
    before = words[at - 1] if at > 0 else ""
    after = list(words[at + 1 : at + 3])
    parts: list[str] = []
    if before.endswith("=") and "=" not in word:
        parts = [before, word]
    elif after[:1] == ["="] and len(after) == 2:
        parts = [word, *after]
    elif after and after[0].startswith("=") and after[0] != "=":
        parts = [word, after[0]]
    joined = "".join(parts)
    return f"there are no spaces around =: type {_in_shell(joined)}" if parts and _can_be_read(joined) else ""


def _about_bare_word(word: str) -> str:
    return "" if "=" in word or ":" in word else "settings are written KEY=VALUE, such as seed=3"


def _about_function(word: str) -> str:
    """`choice()` or `interval(a,b)`: Hydra's functions with arguments that they do not take."""
    value = word.partition("=")[2]
    called = _CALL.fullmatch(value)
    if called is None:
        return ""
    if called[1] in _ARGUMENTS:
        return f"{called[1]} is written {_ARGUMENTS[called[1]]}"
    return ""


def _corrections(word: str) -> Iterator[tuple[str, str]]:
    """Rules that the word breaks, and the word as it would keep them."""
    for rule, correct in _RULES:
        corrected = correct(word)
        if corrected != word and _can_be_read(corrected):
            yield rule, corrected


def _with_plain_signs(word: str) -> str:
    return word.translate(_ALIKE)


def _with_equals(word: str) -> str:
    return re.sub(r"^([~+]*[\w./@-]+)\s*:=?\s*", r"\1=", word, count=1, flags=re.ASCII)


def _with_colons(word: str) -> str:
    """`{low=0, high=1}` with colons."""
    key, equals, value = word.partition("=")
    return key + equals + re.sub(r"([{,]\s*[\w.]+)\s*=\s*", r"\1: ", value) if "{" in value else word


def _with_brackets(word: str) -> str:
    """Closes what is open at the end, and leaves out what closes nothing there."""
    open_ones: list[str] = []
    kept: list[str] = []
    for piece in re.split(f"({_QUOTED.pattern})", word):
        for sign in [piece] if _QUOTED.fullmatch(piece) else piece:
            if sign in _CLOSING:
                open_ones.append(_CLOSING[sign])
            elif sign in _CLOSING.values():
                if not open_ones or open_ones[-1] != sign:
                    continue
                open_ones.pop()
            kept.append(sign)
    return "".join([*kept, *reversed(open_ones)])


def _with_quotes(word: str) -> str:
    key, equals, value = word.partition("=")
    if not equals or value[:1] in ("'", '"', "[", "{"):
        return word
    return f"{key}={to_hydra(value)}" if '"' in value else f'{key}="{value}"'


def _with_quoted_items(word: str) -> str:
    """`settings=[agent.gamma=0.9]`, a list of settings."""
    key, _, value = word.partition("=")
    found = _LISTED_SETTINGS.fullmatch(value)
    items = [] if found is None else [f'"{one.strip()}"' for one in found[1].split(",")]
    return f"{key}=[{','.join(items)}]" if items else word


def _with_closed_quotes(word: str) -> str:
    key, equals, value = word.partition("=")
    return f'{key}="{value.strip(chr(34) + chr(39))}"' if equals and value[:1] in ("'", '"') else word


_RULES: Final[tuple[tuple[str, Callable[[str], str]], ...]] = (
    ("a sign in it only looks like the one of a keyboard", _with_plain_signs),
    ("a setting and its value are joined by =", _with_equals),
    ("names and values within braces are joined by a colon", _with_colons),
    ("a bracket is missing, or one too many", _with_brackets),
    ("settings in a list are put in quotes", _with_quoted_items),
    ("a quotation mark is missing", _with_closed_quotes),
    ("such a value is put in quotes twice, for the shell and for Hydra", _with_quotes),
)


def _read(word: str) -> None:
    OverridesParser.create().parse_override(word)


def _can_be_read(word: str) -> bool:
    try:
        _read(word)
    except HydraException:
        return False
    return True


def _in_shell(word: str) -> str:
    """A word as it is typed in a shell, which takes some signs for its own."""
    return word if re.fullmatch(r"[\w.,:=+~@/-]+", word) else f"'{word}'"
