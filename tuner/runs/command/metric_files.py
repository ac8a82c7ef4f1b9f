"""Values of a metric, read from what a program writes while it writes it."""

import csv
import json
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeAlias

from tuner.errors import UserError
from tuner.support.text_files import parse_json

Point: TypeAlias = tuple[float, float]
"""A step on the program's own axis, and the value of the metric there."""

_MOST_NAMES = 1000


class GrowingFile:
    """The new whole lines of a file that grows; one that became shorter was written anew."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = 0
        self.began_anew = False

    def lines(self) -> list[str]:
        """What has come since the last call."""
        return [line.decode(errors="replace") for line in self.pieces(_whole_lines)]

    def pieces(self, split: Callable[[bytes], tuple[list[bytes], int]]) -> list[bytes]:
        """The whole pieces that have come, by a function that gives them and how many bytes they took."""
        try:
            with self._path.open("rb") as file:
                size = file.seek(0, 2)
                self.began_anew = size < self._offset
                self._offset = 0 if self.began_anew else self._offset
                file.seek(self._offset)
                found, taken = split(file.read())
        except FileNotFoundError:
            return []
        self._offset += taken
        return found


def _whole_lines(content: bytes) -> tuple[list[bytes], int]:
    end = content.rfind(b"\n") + 1
    return content[:end].splitlines(), end


class MetricReader:
    """Reads a metric from all files of a kind below a folder.

    Args:
        folder: Where the program runs.
        files: Which files, as a pattern of `Path.rglob`.
        metric: The name of the value.
        step: The name of the step axis.

    Attributes:
        names: What else was found, for messages.
    """

    default_files = "*"
    needs_step = True

    def __init__(self, folder: Path, files: str, metric: str, step: str | None) -> None:
        self._folder, self._files = folder, files or self.default_files
        self._metric, self._step = metric, step
        self._open: dict[Path, Any] = {}
        self.names: set[str] = set()

    @property
    def num_files(self) -> int:
        """How many files there were."""
        return len(self._open)

    def poll(self) -> list[Point]:
        """What has come since the last call, in order of the files' names."""
        found: list[Point] = []
        for path in self._paths():
            if path not in self._open:
                self._open[path] = self._opened(path)
            found += self._points(self._open[path])
        return found

    def _paths(self) -> Iterable[Path]:
        return sorted(path for path in self._folder.glob(f"**/{self._files}") if path.is_file())

    def _opened(self, path: Path) -> Any:
        return GrowingFile(path)

    def _points(self, file: Any) -> Iterator[Point]:
        raise NotImplementedError

    def _point(self, row: Mapping[str, Any]) -> Iterator[Point]:
        """The point that a row of named values makes; none if one of the two is not in it."""
        if len(self.names) < _MOST_NAMES:
            self.names.update(map(str, row))
        value = number_in(row.get(self._metric))
        step = number_in(row.get(self._step)) if self._step is not None else None
        if value is not None and step is not None and math.isfinite(step):
            yield step, value


class JsonLines(MetricReader):
    """A file with an object of JSON in each line; a dot in a name leads into an inner one."""

    default_files = "*.jsonl"

    def _points(self, file: GrowingFile) -> Iterator[Point]:
        for line in file.lines():
            try:
                row = parse_json(line)
            except ValueError:
                continue
            if isinstance(row, dict):
                yield from self._point({**_flat(row), **row})


class CsvTable(MetricReader):
    """A file with the names of its columns in the first line."""

    default_files = "*.csv"

    def _opened(self, path: Path) -> Any:
        return [GrowingFile(path), None]

    def _points(self, file: list[Any]) -> Iterator[Point]:
        lines = file[0].lines()
        if file[0].began_anew:
            file[1] = None
        for row in csv.reader(lines):
            if file[1] is None:
                if len(row) > 1 and not row[0].startswith("#"):  # Monitor of SB3 writes a comment before
                    file[1] = [name.strip() for name in row]
            else:
                yield from self._point(dict(zip(file[1], row, strict=False)))


class OutputPattern(MetricReader):
    """What the program prints, by a regular expression with the groups `value` and `step`."""

    needs_step = False

    def __init__(self, output: Path, pattern: str) -> None:
        super().__init__(output.parent, output.name, "value", "step")
        self._output = output
        self._pattern = compiled(pattern)

    def _paths(self) -> Iterable[Path]:
        return [self._output] if self._output.exists() else []

    def _points(self, file: GrowingFile) -> Iterator[Point]:
        for line in file.lines():
            for match in self._pattern.finditer(line):
                groups = match.groupdict()
                yield from self._point({name: (text or "").replace(",", "") for name, text in groups.items()})


def compiled(pattern: str) -> re.Pattern[str]:
    """A pattern of `agent.pattern`.

    Raises:
        UserError: It is no regular expression, or has not both groups.
    """
    try:
        found = re.compile(pattern)
    except re.error as error:
        raise UserError(f"agent.pattern={pattern!r} is no regular expression: {error}") from error
    missing = [f"(?P<{name}>...)" for name in ("step", "value") if name not in found.groupindex]
    if missing:
        raise UserError(
            f"agent.pattern={pattern!r} needs {' and '.join(missing)}; write for example "
            r"'step=(?P<step>\d+) return=(?P<value>\S+)'"
        )
    return found


def number_in(value: Any) -> float | None:
    """A number, also one that is written as a text; None: it is none."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        return float(value)
    except (ValueError, OverflowError):
        return None


def _flat(row: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Inner values by dotted names."""
    found: dict[str, Any] = {}
    for name, value in row.items():
        if isinstance(value, dict):
            found.update(_flat(value, f"{prefix}{name}."))
        else:
            found[f"{prefix}{name}"] = value
    return found


def decoded_json(text: str) -> Any:
    """A value of JSON; None: it is none."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None
