"""The terminal as commands write to it: values of a configuration, names and paths are shown, but never obeyed."""

import re
from collections.abc import Iterable
from typing import Any, Final

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from tuner.support.plain_text import printable

_UNLIMITED: Final = 100_000
"""Columns of what is no terminal: a line in a pipe or a file is as long as it comes, so that it can be copied."""


class PlainConsole(Console):
    r"""A console that writes control characters in what it shows as `\x1b`, and colours only what is marked so."""

    def __init__(self, **options: Any) -> None:
        super().__init__(highlight=False, **options)
        if options.get("width") is None and not self.is_terminal and not self.is_jupyter:
            self.width = _UNLIMITED

    def print(self, *objects: Any, **options: Any) -> None:
        """As rich does it; what is no terminal gets no blanks at the ends of lines, which pad tables."""
        if self.width != _UNLIMITED:
            super().print(*objects, **options)
            return
        with self.capture() as shown:
            super().print(*objects, **options)
        self.file.write(re.sub(" +\n", "\n", shown.get()))
        self.file.flush()

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Rich's own way from anything to text; tables and the like come by here with every cell."""
        for segment in super().render(renderable, options):
            text = segment.text if segment.control else printable(segment.text)
            yield segment if text == segment.text else Segment(text, segment.style)
