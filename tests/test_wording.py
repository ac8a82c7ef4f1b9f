"""Phrases and beginnings that make a text hard to read: a count for each room, which only goes down."""

import io
import re
import tokenize
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PHRASES = {
    "told": "say 'given', 'notified', 'reported', 'distinguished'",
    "whoever": "name the part or the person",
    "as ever": "leave it out",
    "by now": "say 'current'",
    "what it came to": "say 'its value'",
    "so many": "say the number, or 'this many'",
    "lacks": "say 'has no', 'needs'",
    "off by": "say 'differs by', 'has an error of'",
    "of one'?s own": "say 'own', 'custom', 'of the user'",
    "hears?": "say 'gets', 'notes', 'reads'",
}
"""By phrase, as an expression: what to write in its place."""
WRITTEN = re.compile(rf"\b({'|'.join(PHRASES)})\b", re.IGNORECASE)
PLACE = re.compile(r"\{[^{}]*\}")
"""In a text: where a value is put."""
ROOMS = {
    "README.md": 0,
    "CHANGELOG.md": 0,
    "CONTRIBUTING.md": 0,
    "conf": 0,
    "note_rl": 0,
    "tuner": 0,
    "tests": 0,
}
"""By room: how often they are left. Lower a number when it is too high."""
BEGINNING = re.compile(r'"""(What|Who)\b')
DOCSTRINGS = {"note_rl": 0, "tuner": 0, "tests": 0}
"""By room: how many docstrings begin with a pronoun in place of a noun. Lower a number when it is too high."""


def texts_of(path: Path) -> Iterator[str]:
    """The text of a file for its readers: of a program its texts and comments, else all of it."""
    content = path.read_text(encoding="utf-8")
    if path.suffix != ".py":
        yield content
        return
    kinds = (tokenize.STRING, tokenize.COMMENT, getattr(tokenize, "FSTRING_MIDDLE", tokenize.STRING))  # 3.12: in parts
    for token in tokenize.generate_tokens(io.StringIO(content).readline):
        if token.type in kinds:
            yield PLACE.sub("", token.string) if re.match("[rb]*f", token.string, re.IGNORECASE) else token.string


def names_of(path: Path) -> Iterator[str]:
    """Names of a program's functions, as words."""
    tokens = tokenize.generate_tokens(io.StringIO(path.read_text(encoding="utf-8")).readline)
    for token, following in pairwise(tokens):
        if (token.type, token.string) == (tokenize.NAME, "def"):
            yield following.string.replace("_", " ")


def may_hold(path: Path) -> bool:
    """Whether a phrase stands anywhere in the file, which is found out at once."""
    content = PLACE.sub("", path.read_text(encoding="utf-8"))
    return bool(WRITTEN.search(content.replace("_", " ")))


def files_in(room: str) -> list[Path]:
    """Files of a room, without this one, which lists the phrases."""
    place = ROOT / room
    files = [place] if place.is_file() else sorted(p for p in place.rglob("*") if p.suffix in (".py", ".md", ".yaml"))
    return [path for path in files if path != Path(__file__)]


def found_in(room: str) -> list[str]:
    """The phrases of a room, each behind its file; of tests, also those in names of functions."""
    return [
        f"{path.relative_to(ROOT)}: {one[0]}"
        for path in files_in(room)
        if may_hold(path)
        for text in (*texts_of(path), *(names_of(path) if room == "tests" and path.suffix == ".py" else ()))
        for one in WRITTEN.finditer(text)
    ]


@pytest.mark.parametrize("room", ROOMS)
def test_hard_phrases_only_become_fewer(room: str) -> None:
    found = found_in(room)
    assert len(found) == ROOMS[room], "\n".join([*found, "reword them (PHRASES), or lower the number of the room"])


@pytest.mark.parametrize("room", DOCSTRINGS)
def test_docstrings_that_begin_with_a_pronoun_only_become_fewer(room: str) -> None:
    found = [
        f"{path.relative_to(ROOT)}:{number}"
        for path in files_in(room)
        if path.suffix == ".py"
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if BEGINNING.search(line)
    ]
    assert len(found) == DOCSTRINGS[room], "\n".join([*found, "begin with a noun or a verb, or lower the number"])


def test_phrases_are_found_in_names_of_functions(tmp_path: Path) -> None:
    path = tmp_path / "module.py"
    path.write_text(
        "def test_a_rank_hears(told):\n    def as_ever_of_ones_own(): ...\n    text = 'def by_now(): ...'\n"
    )
    found = [[one[0] for one in WRITTEN.finditer(name)] for name in names_of(path)]
    assert found == [["hears"], ["as ever", "of ones own"]]
    assert may_hold(path)


def test_phrases_are_found_in_texts_and_not_in_names_of_variables(tmp_path: Path) -> None:
    path = tmp_path / "module.py"
    path.write_text('"""It is told."""\ntold = f"so many {told}"  # Whoever\nTOLD = told\n')
    assert [one[0] for text in texts_of(path) for one in WRITTEN.finditer(text)] == ["told", "so many", "Whoever"]
