"""`tuner guide [TOPIC]`: the pages of `tuner/guide/`, formatted in a terminal and as they are in a pipe."""

import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Final, TextIO

from tuner.errors import UserError
from tuner.support.help_columns import in_columns, width_of
from tuner.support.names import did_you_mean
from tuner.support.plain_text import MAX_MESSAGE, plain

if TYPE_CHECKING:
    from omegaconf import DictConfig

EXIT_REFUSED: Final = 2
FOLDER: Final = Path(__file__).parents[1] / "guide"
_WIDEST: Final = 100
"""Columns of formatted text: longer lines are hard to read."""

_LINK: Final = re.compile(r"\[([^\]]+)\]\(\S+\.md\)")
"""To another page, whose text says what to type."""

_TRUTH: Final = {"path=true": True, "path=false": False}


def show(config: "DictConfig", overrides: Sequence[str], config_dir: str | Path | None) -> int:
    """Prints a page, its file, or the list of pages."""
    del overrides, config_dir
    _write(None if config.topic is None else str(config.topic), bool(config.path), sys.stdout)
    return 0


def show_at_once(words: Sequence[str]) -> int | None:
    """The same without a configuration, whose composition takes more than a second.

    Args:
        words: Typed behind `tuner guide`.

    Returns:
        The exit status; None: nothing is printed, as options and other settings are for the command line.
    """
    topics = [word for word in words if word not in _TRUTH]
    if len(topics) > 1 or any("=" in word or word.startswith("-") or word == "help" for word in topics):
        return None
    with_path = [_TRUTH[word] for word in words if word in _TRUTH]
    try:
        _write(topics[0] if topics else None, with_path[-1:] == [True], sys.stdout)
        sys.stdout.flush()
    except UserError as error:
        sys.stderr.write(f"tuner guide: {plain(str(error), MAX_MESSAGE)}\n")
        return EXIT_REFUSED
    except BrokenPipeError:  # the reader has gone: `tuner guide tune | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


def subjects() -> dict[str, list[str]]:
    """The pages by subject, in the order of the list."""
    lines = (FOLDER / "contents.txt").read_text(encoding="utf-8").splitlines()
    return {subject: topics.split() for subject, _, topics in (line.partition(":") for line in lines)}


def page_of(topic: str) -> Path:
    """The file of a page.

    Raises:
        UserError: There is no such page.
    """
    known = [name for names in subjects().values() for name in names]
    if topic not in known:
        raise UserError(f"there is no page {topic!r}{did_you_mean(topic, known)}\ntuner guide lists all pages")
    return FOLDER / f"{topic}.md"


def _write(topic: str | None, with_path: bool, stream: TextIO) -> None:
    if topic is None:
        stream.write(f"{FOLDER}\n" if with_path else _list(width_of(stream)))
        return
    page = page_of(topic)
    if with_path:
        stream.write(f"{page}\n")
    elif width_of(stream) is None:
        stream.write(page.read_text(encoding="utf-8"))
    else:
        _format(page.read_text(encoding="utf-8"), stream)


def _list(width: int | None) -> str:
    """The pages by subject, with the first line of each."""
    lines, found = ["usage: tuner guide TOPIC [path=true]"], subjects()
    widest = max(len(topic) for topics in found.values() for topic in topics)
    for subject, topics in found.items():
        rows = [(topic, _title(topic)) for topic in topics]
        lines += ["", f"{subject}:", *in_columns(rows, widest, width)]
    return "\n".join([*lines, ""])


def _title(topic: str) -> str:
    first, _, _ = page_of(topic).read_text(encoding="utf-8").partition("\n")
    return first.removeprefix("# ")


def _format(text: str, stream: TextIO) -> None:
    from rich.console import Console, ConsoleOptions, RenderResult
    from rich.markdown import Markdown, TableElement
    from rich.table import Table
    from rich.theme import Theme

    from tuner.support.console import PlainConsole

    class WholeTable(TableElement):
        """A table in which a word that is too long for its column goes on in the next line; Rich cuts it off."""

        def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
            for table in super().__rich_console__(console, options):
                for column in table.columns if isinstance(table, Table) else ():
                    column.overflow = "fold"
                yield table

    class Page(Markdown):
        """A page with whole tables."""

        elements: ClassVar = {**Markdown.elements, "table_open": WholeTable}

    console = PlainConsole(file=stream)
    console.width = min(console.width, _WIDEST)
    console.push_theme(Theme({"markdown.code": "bold cyan"}))  # Rich's own has black boxes, also on a light background
    console.print(Page(_LINK.sub(r"\1", text), code_theme="ansi_dark", hyperlinks=False))
