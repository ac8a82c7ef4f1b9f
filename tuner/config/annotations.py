"""The kind of value of a setting, read from an annotation: `int | None`, `Sequence[float]`, `Literal["a", "b"]`.

An annotation comes from source that is not imported, so it is text. What is said of a value in it that has no meaning
in a configuration (`Callable[...]`, a class of somebody else's) is checked where the object is built.
"""

import ast
import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Protocol

from note_rl.support.near_names import nearest
from tuner.errors import UserError
from tuner.support.names import one_of

_MOST = 2**63
"""Whole numbers from here on fit into no array and no database."""


class ValueKind(Protocol):
    """One alternative of an annotation."""

    @property
    def words(self) -> str:
        """Name of the kind, as in "must be a number"."""

    def holds(self, value: object) -> bool:
        """Whether a value is of this kind."""


@dataclass(frozen=True)
class _Plain:
    """A value of one of these types. True and false are no numbers, and nan is none either."""

    words: str
    types: tuple[type, ...]

    def holds(self, value: object) -> bool:
        if isinstance(value, bool) or bool in self.types:
            return isinstance(value, self.types) and isinstance(value, bool) == (bool in self.types)
        if isinstance(value, float) and math.isnan(value):
            return False
        return isinstance(value, self.types) and not (isinstance(value, int) and abs(value) >= _MOST)


@dataclass(frozen=True)
class _Choice:
    """One of these words or numbers."""

    values: tuple[Any, ...]

    @property
    def words(self) -> str:
        """All of them."""
        return " or ".join(map(str, self.values))

    def holds(self, value: object) -> bool:
        return any(type(value) is type(known) and value == known for known in self.values)


@dataclass(frozen=True)
class _ListOf:
    """A list.

    Attributes:
        items: The kinds of what is in it; None: anything.
        length: How many there are; None: any number.
    """

    items: tuple[ValueKind, ...] | None
    length: int | None = None

    @property
    def words(self) -> str:
        """With an example."""
        number = "" if self.length is None else f"{self.length} "
        if self.items is None:
            return f"a list of {number}values" if number else "a list"
        inner = " or ".join(_PLURALS.get(kind.words, f"{kind.words} each") for kind in self.items)
        return f"a list of {number}{inner}{'' if number else _EXAMPLES.get(inner, '')}"

    def holds(self, value: object) -> bool:
        if not isinstance(value, list) or self.length not in (None, len(value)):
            return False
        return self.items is None or all(any(kind.holds(item) for kind in self.items) for item in value)


@dataclass(frozen=True)
class _Group:
    """A mapping from names; None: to anything."""

    items: tuple[ValueKind, ...] | None

    @property
    def words(self) -> str:
        """Description of the group and of its items."""
        return "a group of settings" if self.items is None else f"a group of settings, each {_either(self.items)}"

    def holds(self, value: object) -> bool:
        return isinstance(value, Mapping) and (
            self.items is None or all(any(kind.holds(item) for kind in self.items) for item in value.values())
        )


@dataclass(frozen=True)
class _Object:
    """An object or a function: in a configuration, what it is built from."""

    words: str = "a group of settings with a _target_"

    def holds(self, value: object) -> bool:
        return isinstance(value, Mapping) and "_target_" in value


_INT = _Plain("a whole number", (int,))
_FLOAT = _Plain("a number", (int, float))
_STR = _Plain("a word", (str,))
_PLAIN: Mapping[str, ValueKind] = {
    "int": _INT,
    "float": _FLOAT,
    "bool": _Plain("true or false", (bool,)),
    "str": _STR,
    "Path": _STR,
    "None": _Plain("null", (type(None),)),
}
_PLURALS = {"a whole number": "whole numbers", "a number": "numbers", "a word": "words"}
_EXAMPLES = {"whole numbers": " such as [64, 64]", "numbers": " such as [0.9, 0.99]"}
_LISTS = ("Sequence", "list", "tuple", "List", "Collection", "Iterable")
_GROUPS = ("Mapping", "dict", "Dict", "MutableMapping")
_OBJECTS = ("note_rl.", "tuner.", "optuna.")


def conform(path: str, value: object, annotation: str | None, *, finite: bool = False) -> object:
    """The value as its annotation means it: 1e5 is 100000 where a whole number is asked for, 2024 a word for a word.

    Args:
        path: Of the setting, for messages.
        value: As composed.
        annotation: As written in the source, aliases replaced; None: there is none, and everything passes.
        finite: Whether numbers must be finite, too.

    Raises:
        UserError: It is something else; says what it must be.
    """
    kinds = parse_annotation(annotation)
    if kinds is None:
        return value
    if any(kind.holds(value) for kind in kinds):
        if finite and _is_infinite(value):
            raise UserError(f"{path}={value} is not possible: it must be a finite number")
        return value
    if _INT in kinds and isinstance(value, float) and value.is_integer() and _INT.holds(int(value)):
        return int(value)
    if _STR in kinds and isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if isinstance(value, str) and _is_number(value) and (_INT in kinds or _FLOAT in kinds):
        raise UserError(
            f"{path}='{value}' is a text, and must be {_either(kinds)}: type {path}={value}, without quotes"
        )
    close = nearest(value, _words_among(kinds)) if isinstance(value, str) else []
    hint = one_of(close)
    if any(isinstance(kind, _ListOf) and kind.holds([value]) for kind in kinds):
        hint = f"; of one, type {path}=[{written(value)}]"
    raise UserError(f"{path}={written(value)} must be {_either(kinds)}{hint}")


def _is_number(text: str) -> bool:
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False


def written(value: object) -> str:
    """A value as it is typed, and as it may be shown in a message: short, and on one line."""
    if isinstance(value, bool):
        return str(value).lower()
    text = "null" if value is None else "''" if value == "" else " ".join(str(value).split()) or repr(value)
    return shortened(text, _LONGEST_VALUE)


def shortened(text: str, length: int = 300) -> str:
    """A text that may have any length, as far as somebody would read it."""
    return text if len(text) <= length else f"{text[:length]}..."


_LONGEST_VALUE = 60


@lru_cache(maxsize=1024)
def parse_annotation(annotation: str | None) -> tuple[ValueKind, ...] | None:
    """The alternatives of an annotation; None where one of them may be anything."""
    if not annotation:
        return None
    try:
        return _alternatives(ast.parse(annotation, mode="eval").body)
    except SyntaxError:
        return None


def _alternatives(node: ast.expr) -> tuple[ValueKind, ...] | None:
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
        left, right = _alternatives(node.left), _alternatives(node.right)
        return None if left is None or right is None else (*left, *right)
    if isinstance(node, ast.Constant):
        return (_PLAIN["None"],) if node.value is None else parse_annotation(str(node.value))
    if isinstance(node, ast.Subscript):
        return _of_subscript(node)
    name = ast.unparse(node)
    if name.rpartition(".")[2] in _PLAIN and not name.startswith(_OBJECTS):
        return (_PLAIN[name.rpartition(".")[2]],)
    if name in _LISTS or name in _GROUPS:
        return (_ListOf(None) if name in _LISTS else _Group(None),)
    return (_Object(),) if name.startswith(_OBJECTS) else None


def _of_subscript(node: ast.Subscript) -> tuple[ValueKind, ...] | None:
    name = ast.unparse(node.value).rpartition(".")[2]
    inner = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    if name == "Literal":
        return (_Choice(tuple(one.value for one in inner if isinstance(one, ast.Constant))),)
    if name in _LISTS:
        is_fixed = name == "tuple" and ast.unparse(inner[-1]) != "..."
        return (_ListOf(_alternatives(inner[0]), len(inner) if is_fixed else None),)
    if name in _GROUPS:
        return (_Group(_alternatives(inner[-1])),)
    if name == "PathLike":
        return (_STR,)
    return (_Object(),) if name == "Callable" else None


def _either(kinds: tuple[ValueKind, ...]) -> str:
    return " or ".join(dict.fromkeys(kind.words for kind in kinds))


def _words_among(kinds: tuple[ValueKind, ...]) -> list[str]:
    return [str(value) for kind in kinds if isinstance(kind, _Choice) for value in kind.values]


def _is_infinite(value: object) -> bool:
    if isinstance(value, list):
        return any(map(_is_infinite, value))
    return isinstance(value, float) and math.isinf(value)
