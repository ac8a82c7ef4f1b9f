"""Values of a metric, read from what a program writes while it writes it."""

import contextlib
import csv
import hashlib
import importlib
import io
import json
import math
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from tuner.errors import UserError
from tuner.support.plain_text import MAX_NAME, one_line
from tuner.support.text_files import parse_json

Point: TypeAlias = tuple[float, float]
"""A step on the program's own axis, and the value of the metric there."""

PROGRESS_FILE = ".tuner-progress.json"
"""State that an attempt continues from; the file lies among those of the program, and is none of them."""

_MOST_NAMES = 1000
_MOST_WALKS = 3
_PRINT_BYTES = 256
_BEGIN_OF_DOCUMENT = re.compile(rb'\s*(\[\s*([{\]].*)?|\{\s*(["}].*)?)')


@dataclass(frozen=True)
class Batch:
    """Values that are new in a file.

    Attributes:
        file: Its name.
        anew: Whether it was written anew, so that values that it has given before come again.
        points: The values with their steps.
    """

    file: str
    anew: bool
    points: list[Point]


class GrowingFile:
    """The new whole pieces of a file that grows.

    It was written anew if it became shorter, if another file took its place, or if its beginning or what stood before
    the place that was read to is different. Then it is read from its beginning.

    Attributes:
        began_anew: Whether the last call found that.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = 0
        self._print = ""
        self._inode: int | None = None
        self.began_anew = False

    def pieces(self, split: Callable[[bytes, int], tuple[list[bytes], int]]) -> list[bytes]:
        """The whole pieces that have come, by a function that gives them and how many bytes they took.

        Args:
            split: Gets what has come, and where in the file that begins.
        """
        try:
            with self._path.open("rb") as file:
                self.began_anew = self._offset > 0 and self._is_another(file)
                self._offset = 0 if self.began_anew else self._offset
                file.seek(self._offset)
                found, taken = split(file.read(), self._offset)
                if taken or self.began_anew or self._inode is None:
                    self._note(file, self._offset + taken)
        except FileNotFoundError:
            self.began_anew = False
            return []
        return found

    @property
    def position(self) -> dict[str, Any]:
        """Up to where it was read, for `go_to`."""
        return {"offset": self._offset, "print": self._print}

    def go_to(self, position: Mapping[str, Any]) -> None:
        """Goes on from where another reader had stopped.

        Raises:
            ValueError, TypeError, KeyError: That is no position.
        """
        self._offset, self._print = max(int(position["offset"]), 0), str(position["print"])

    def skip_rest(self) -> None:
        """Leaves out a last piece that is not whole: what is added from now on is another one."""
        if self._offset:
            self.skip_all()

    def skip_all(self) -> None:
        """Leaves out what is there."""
        with contextlib.suppress(FileNotFoundError), self._path.open("rb") as file:
            self._note(file, file.seek(0, os.SEEK_END))

    def _is_another(self, file: io.BufferedReader) -> bool:
        about = os.fstat(file.fileno())
        if about.st_size < self._offset or self._inode not in (None, about.st_ino):
            return True
        return self._print_of(file, self._offset) != self._print

    def _note(self, file: io.BufferedReader, offset: int) -> None:
        self._offset, self._inode = offset, os.fstat(file.fileno()).st_ino
        self._print = self._print_of(file, offset)

    @staticmethod
    def _print_of(file: io.BufferedReader, offset: int) -> str:
        """A digest of its beginning, and of what stands before a place."""
        file.seek(0)
        seen = file.read(min(offset, _PRINT_BYTES))
        file.seek(max(offset - _PRINT_BYTES, 0))
        seen += file.read(min(offset, _PRINT_BYTES))
        return hashlib.blake2b(seen, digest_size=16).hexdigest()


def whole_lines(content: bytes, at: int) -> tuple[list[bytes], int]:
    """The lines that have an end, and their bytes."""
    del at
    end = content.rfind(b"\n") + 1
    return content[:end].splitlines(), end


def all_lines(content: bytes, at: int) -> tuple[list[bytes], int]:
    """The lines of a file to which nothing is added any more, also a last one without an end."""
    del at
    return content.splitlines(), len(content)


def json_texts(content: bytes, at: int) -> tuple[list[bytes], int]:
    """The lines, also a last one without an end if it is whole; or all, of a file that is one text in several lines."""
    lines, end = whole_lines(content, at)
    if at == 0 and lines and _BEGIN_OF_DOCUMENT.fullmatch(lines[0].rstrip()) and not _is_json(lines[0]):
        if _is_json(content):
            return [content], len(content)
        if sum(map(_is_json, lines[1:])) < 2:
            return [], 0  # it is being written
    rest = content[end:]
    return ([*lines, rest], len(content)) if rest.rstrip()[-1:] in (b"}", b"]") and _is_json(rest) else (lines, end)


class MetricReader:
    """Reads a metric from all files of a kind below a folder.

    Args:
        folder: Where the program runs.
        files: Which files, as a pattern of `Path.rglob`.
        metric: The name of the value.
        step: The name of the step axis.

    Attributes:
        metric, step: Their names in a row.
        names: Names of the other values found, for messages.
        odd: Texts in the place of a number, by name, for messages.
        has_values: Whether the metric was a number somewhere, with or without a step.
        is_complete: Whether the program has ended well: a last line without an end is whole.
    """

    default_files = "*"
    needs_step = True

    def __init__(self, folder: Path, files: str, metric: str, step: str | None) -> None:
        self._folder, self._files = folder, files or self.default_files
        self.metric, self.step = metric, step
        self._open: dict[Path, GrowingFile] = {}
        self._positions: Mapping[str, Any] = {}
        self.names: set[str] = set()
        self.odd: dict[str, str] = {}
        self.has_values = False
        self.is_complete = False

    @property
    def _lines(self) -> Callable[[bytes, int], tuple[list[bytes], int]]:
        return all_lines if self.is_complete else whole_lines

    @property
    def num_files(self) -> int:
        """How many files there were."""
        return len(self._open)

    def poll(self) -> list[Batch]:
        """New values since the last call, in order of the files' names."""
        batches = []
        for path in self._paths():
            name = path.relative_to(self._folder).as_posix()
            is_unsure = path not in self._open and not self._begin(path, name)
            file = self._open[path]
            points = list(self._points(file))
            if points or file.began_anew:
                batches.append(Batch(name, file.began_anew or is_unsure, points))
        return batches

    @property
    def positions(self) -> dict[str, Any]:
        """Up to where each file was read, for `go_to`."""
        return {path.relative_to(self._folder).as_posix(): file.position for path, file in self._open.items()}

    def go_to(self, positions: Mapping[str, Any]) -> None:
        """Goes on from where the reader of an earlier attempt had stopped. To be called before the first `poll`."""
        self._positions = positions

    def skip_rest(self) -> None:
        """Leaves out what a killed program has left half-written at the ends of its files."""
        for file in self._open.values():
            file.skip_rest()

    def skip_earlier(self) -> None:
        """Leaves out what is there before a program begins anew, in an empty folder."""

    def _begin(self, path: Path, name: str) -> bool:
        """Opens a file; returns False if it was read before, and where to go on is not known."""
        self._open[path] = self._opened(path)
        if name not in self._positions:
            return True
        try:
            self._open[path].go_to(self._positions[name])
        except (ValueError, TypeError, KeyError):
            self._open[path] = self._opened(path)
            return False
        return True

    def _paths(self) -> Iterable[Path]:
        for _ in range(_MOST_WALKS):
            with contextlib.suppress(FileNotFoundError, NotADirectoryError):  # a folder went while it was listed
                found = list(self._folder.glob(f"**/{self._files}"))
                return sorted(path for path in found if path.name != PROGRESS_FILE and path.is_file())
        return sorted(self._open)  # the next poll finds the others

    def _opened(self, path: Path) -> GrowingFile:
        return GrowingFile(path)

    def _points(self, file: Any) -> Iterator[Point]:
        raise NotImplementedError

    def _point(self, row: Mapping[str, Any]) -> Iterator[Point]:
        """The point that a row of named values makes; none if one of the two is not in it."""
        if len(self.names) < _MOST_NAMES:
            self.names.update(map(str, row))
        value = self._number(row, self.metric)
        self.has_values = self.has_values or value is not None
        step = self._number(row, self.step) if self.step is not None else None
        if value is not None and step is not None and math.isfinite(step):
            yield step, value

    def _number(self, row: Mapping[str, Any], name: str) -> float | None:
        number = number_in(row.get(name))
        if number is None and name in row:
            self.odd[name] = one_line(json.dumps(row[name], ensure_ascii=False, default=str), MAX_NAME)
        return number


class JsonLines(MetricReader):
    """A file with an object of JSON in each line; a dot in a name leads into an inner one.

    Also one list of such objects, and an object of columns, which programs write anew each time.
    """

    default_files = "*.jsonl"

    def _points(self, file: GrowingFile) -> Iterator[Point]:
        for text in file.pieces(json_texts):
            try:
                content = parse_json(text)
            except ValueError:
                continue
            for row in content if isinstance(content, list) else [content]:
                if isinstance(row, dict):
                    yield from self._points_in({**_flat(row), **row})

    def _points_in(self, row: Mapping[str, Any]) -> Iterator[Point]:
        names = (self.metric, str(self.step))
        columns = [row.get(name) for name in names]
        if all(isinstance(column, list) for column in columns):
            for values in zip(*columns, strict=False):
                yield from self._point(dict(zip(names, values, strict=True)))
        else:
            yield from self._point(row)


class CsvTable(MetricReader):
    """A file with the names of its columns in the first line."""

    default_files = "*.csv"

    def _opened(self, path: Path) -> GrowingFile:
        return _CsvFile(path)

    def _points(self, file: "_CsvFile") -> Iterator[Point]:
        lines = [line.decode("utf-8-sig", errors="replace") for line in file.pieces(self._lines)]
        if file.began_anew:
            file.columns = []
        for row in csv.reader(lines):
            cells = [cell.strip() for cell in row]
            if self.metric in cells and self.step in cells:  # also of a program that goes on in the same file
                file.columns = cells
            elif not file.columns:
                if len(row) > 1 and not row[0].startswith("#"):  # Monitor of SB3 writes a comment before
                    file.columns = cells
            else:
                yield from self._point(dict(zip(file.columns, row, strict=False)))


class _CsvFile(GrowingFile):
    """A table.

    Attributes:
        columns: Their names.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.columns: list[str] = []

    @property
    def position(self) -> dict[str, Any]:
        """Up to where it was read, and the names of its columns."""
        return {**super().position, "columns": self.columns}

    def go_to(self, position: Mapping[str, Any]) -> None:
        """Goes on from where another reader had stopped."""
        super().go_to(position)
        self.columns = [str(name) for name in position["columns"]]


class OutputPattern(MetricReader):
    """Reads the output of the program, by a regular expression with the groups `value` and `step`."""

    needs_step = False

    def __init__(self, output: Path, pattern: str) -> None:
        super().__init__(output.parent, output.name, "value", "step")
        self._output = output
        self._pattern = compiled(pattern)

    def _paths(self) -> Iterable[Path]:
        return [self._output] if self._output.exists() else []

    def skip_earlier(self) -> None:
        """Leaves out what earlier attempts have printed, which the program's folder does not hold."""
        for path in self._paths():
            self._open[path] = self._opened(path)
            self._open[path].skip_all()

    def _points(self, file: GrowingFile) -> Iterator[Point]:
        for line in file.pieces(self._lines):
            for match in self._pattern.finditer(line.decode(errors="replace")):
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


def messages(kind: Any, records: Iterable[bytes]) -> Iterator[Any]:
    """Messages of protobuf, without those that are damaged.

    Args:
        kind: Their class.
        records: Their bytes.
    """
    damaged = importlib.import_module("google.protobuf.message").DecodeError
    for record in records:
        with contextlib.suppress(damaged):
            yield kind.FromString(record)


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


def _is_json(text: bytes) -> bool:
    """Whether it is an object or a list of JSON."""
    try:
        return isinstance(parse_json(text), dict | list)
    except ValueError:
        return False
