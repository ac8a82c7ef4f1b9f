"""Reads what README files and guides show: blocks of code with their class, sections, tables, commands, sentences."""

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tuner.commands.guide import FOLDER

ROOT: Final = Path(__file__).parents[1]
GUIDES: Final = tuple(path.relative_to(ROOT).as_posix() for path in sorted(FOLDER.glob("*.md")))
ROOMS: Final = ("conf", "note_rl", "note_rl/learners/pytorch/step_graph", "tuner", "tests", "tests/benchmarks")
FIGURES: Final = tuple(sorted(path.relative_to(ROOT).as_posix() for path in ROOT.glob("tests/benchmarks/*.md")))
"""The pages that keep measured figures."""
READMES: Final = ("README.md", *(f"{room}/README.md" for room in ROOMS))
DOCUMENTS: Final = (*dict.fromkeys((*READMES, *FIGURES)), "CONTRIBUTING.md", "CHANGELOG.md", *GUIDES)
CLASSES: Final = {
    "sh": ("run", "check", "shown"),
    "python": ("run", "check", "shown", "file"),
    "yaml": ("file", "shown"),
    "toml": ("shown",),
    "output": ("of", "shown"),
    "text": ("shown",),
}
"""Of a block, by its language.

run: executed in order, made small. check: settings are composed and checked. file: its content, at the path behind
`file=`. of: what the command behind `of=` prints; `...` stands for anything. shown: only read, but commands and names
in it have to exist.
"""

_FENCE = re.compile(r"^```([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Block:
    """A fenced block.

    Attributes:
        document: Where it stands.
        language: First word of its info string.
        use: Its class; empty: there is none.
        argument: The path of a file, or the command of an output.
        text: What is in it.
        before: The text of the document in front of it.
    """

    document: str
    language: str
    use: str
    argument: str
    text: str
    before: str


def text_of(document: str) -> str:
    return (ROOT / document).read_text()


def blocks_of(document: str) -> list[Block]:
    """All fenced blocks of a document, in order."""
    text, found = text_of(document), []
    for match in _FENCE.finditer(text):
        language, _, info = match[1].partition(" ")
        use, _, argument = info.partition("=")
        found.append(Block(document, language, use, argument.strip('"'), match[2], text[: match.start()]))
    return found


BLOCKS: Final = tuple(block for document in DOCUMENTS for block in blocks_of(document))
FILES: Final = {block.argument: block.text for block in BLOCKS if block.use == "file"}
"""The examples by their paths."""


def blocks_with(language: str, use: str) -> list[Block]:
    """Those of a language and a class, in all documents."""
    return [block for block in BLOCKS if (block.language, block.use) == (language, use)]


def commands_of(block: Block) -> Iterator[list[str]]:
    """The words behind `tuner` on every line of a shell block that calls it."""
    for line in block.text.replace("\\\n", " ").splitlines():
        words = shlex.split(line, comments=True)
        if "tuner" in words:
            yield words[words.index("tuner") + 1 :]


def section(document: str, heading: str) -> str:
    """The text below a heading, up to the next one."""
    found = re.search(rf"^## {re.escape(heading)}\n(.*?)(?=^## |\Z)", text_of(document), re.MULTILINE | re.DOTALL)
    assert found, f"{document} has no section {heading!r}"
    return found[1]


def rows_in(text: str, first_heading: str) -> list[list[str]]:
    """The cells of the table whose first column has this heading."""
    lines = iter(text.splitlines())
    next(line for line in lines if line.startswith(f"| {first_heading} |"))
    next(lines)
    cells: list[list[str]] = []
    for line in lines:
        if not line.startswith("|"):
            break
        cells.append([cell.strip() for cell in line.strip("|").split("|")])
    return cells


def quoted(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


def prose_of(document: str) -> str:
    """The text without blocks, tables and headings; what is quoted counts as one word."""
    text = re.sub(r"`[^`\n]+`", "`code`", _FENCE.sub("", text_of(document)))
    return "\n".join(line for line in text.splitlines() if not line.startswith(("|", "#")))


def sentences_of(document: str) -> list[str]:
    """The sentences, each on one line; items of a list are apart."""
    paragraphs = re.split(r"\n\s*\n|\n(?=\s*(?:- |\d+\. ))", prose_of(document))
    lines = (" ".join(paragraph.split()) for paragraph in paragraphs)
    return [one for line in lines for one in re.split(r"(?<=[.!?])[*\")]* (?=\W*[A-Z`])", line) if one]
