"""Phrases that make a text hard to read: a count for each room, which only goes down."""

import io
import re
import tokenize
from collections.abc import Iterator
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
    "of one's own": "say 'own'",
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
    "tests": 135,
}
"""By room: how often they are left. Lower a number when it is too high."""


def texts_of(path: Path) -> Iterator[str]:
    """What people read of a file: of a program its texts and comments, else all of it."""
    content = path.read_text(encoding="utf-8")
    if path.suffix != ".py":
        yield content
        return
    kinds = (tokenize.STRING, tokenize.COMMENT, getattr(tokenize, "FSTRING_MIDDLE", tokenize.STRING))  # 3.12: in parts
    for token in tokenize.generate_tokens(io.StringIO(content).readline):
        if token.type in kinds:
            yield PLACE.sub("", token.string) if re.match("[rb]*f", token.string, re.IGNORECASE) else token.string


def found_in(room: str) -> list[str]:
    """The phrases of a room, each behind its file."""
    place = ROOT / room
    files = [place] if place.is_file() else sorted(p for p in place.rglob("*") if p.suffix in (".py", ".md", ".yaml"))
    return [
        f"{path.relative_to(ROOT)}: {one[0]}"
        for path in files
        if path != Path(__file__) and WRITTEN.search(PLACE.sub("", path.read_text(encoding="utf-8")))
        for text in texts_of(path)
        for one in WRITTEN.finditer(text)
    ]


@pytest.mark.parametrize("room", ROOMS)
def test_hard_phrases_only_become_fewer(room: str) -> None:
    found = found_in(room)
    assert len(found) == ROOMS[room], "\n".join([*found, "reword them (PHRASES), or lower the number of the room"])


def test_phrases_are_found_in_texts_and_not_in_names(tmp_path: Path) -> None:
    path = tmp_path / "module.py"
    path.write_text('"""It is told."""\ntold = f"so many {told}"  # Whoever\nTOLD = told\n')
    assert [one[0] for text in texts_of(path) for one in WRITTEN.finditer(text)] == ["told", "so many", "Whoever"]
