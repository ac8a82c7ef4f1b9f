"""Values of JSON as the types that they claim to be: dataclasses, and all that their fields may be annotated with.

What is read was written by another process, or may have been changed by hand: what is of another type is a ValueError
that names its place. Standard library only, as the fork server loads this before anything else.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import lru_cache, partial
from itertools import cycle
from types import NoneType, UnionType
from typing import Any, TypeAlias, TypeVar, Union, get_args, get_origin, get_type_hints, is_typeddict

from tuner.support.plain_text import printable

_T = TypeVar("_T")
_Decoder: TypeAlias = Callable[[Any, str], Any]
_IN_WORDS: Mapping[type, str] = {
    **{bool: "true or false", int: "a whole number", float: "a number", str: "a text"},
    **{list: "a list", dict: "a group of named values", NoneType: "null"},
}


def decode(kind: Callable[..., _T], value: object, path: str = "", *, nan: bool = True) -> _T:
    """Decodes a value from its JSON form: lists become tuples, whole numbers floats, where its type says so.

    Args:
        kind: Its type: a dataclass, a typed dictionary (which may have further keys), an enumeration, a union, a
            sequence or mapping of types, or a plain type.
        value: As JSON has it.
        path: Of the value, for messages.
        nan: Whether a float may be NaN.

    Raises:
        ValueError: It or something in it is of another type, missing or unknown; says where.
    """
    found: _T = _decoder(kind, nan)(value, path)
    return found


@lru_cache(maxsize=512)
def _decoder(kind: Any, nan: bool) -> _Decoder:
    origin, inner = get_origin(kind), [one for one in get_args(kind) if one not in (..., NoneType)]
    if kind in (Any, object):
        return lambda value, path: value
    if origin in (Union, UnionType):
        return partial(_alternative, [_decoder(one, nan) for one in inner], NoneType in get_args(kind))
    if origin in (tuple, list, Sequence):
        return partial(_list, [_decoder(one, nan) for one in inner], list if origin is list else tuple)
    if origin in (dict, Mapping):
        return partial(_mapping, _decoder(inner[1], nan))
    if is_dataclass(kind) or is_typeddict(kind):
        return partial(_object, kind, nan)
    return partial(_member, kind) if issubclass(kind, Enum) else partial(_plain, kind, nan)


def _alternative(kinds: Sequence[_Decoder], optional: bool, value: object, path: str) -> Any:
    if value is None and optional:
        return None
    for kind in kinds[:-1]:
        with suppress(ValueError):
            return kind(value, path)
    return kinds[-1](value, path)


def _list(kinds: Sequence[_Decoder], made: Callable[[Any], Any], value: object, path: str) -> Any:
    """Of one kind, whatever their number, or of one kind each."""
    listed = value if isinstance(value, tuple) else _plain(list, True, value, path)
    if len(kinds) not in (1, len(listed)):
        raise ValueError(f"{printable(path)} must have {len(kinds)} values, not {len(listed)}")
    pairs = zip(cycle(kinds), listed, strict=False)
    return made(kind(one, f"{path}[{index}]") for index, (kind, one) in enumerate(pairs))


def _mapping(kind: _Decoder, value: object, path: str) -> dict[str, Any]:
    return {key: kind(one, f"{path}.{key}") for key, one in _plain(dict, True, value, path).items()}


def _object(kind: Any, nan: bool, value: object, path: str) -> Any:
    known, before, given = _fields(kind, nan), f"{path}." if path else "", _plain(dict, True, value, path)
    is_open = is_typeddict(kind)
    for name in () if is_open else given.keys() - known.keys():
        raise ValueError(f"{printable(f'{before}{name}')} is unknown")
    for name in sorted(kind.__required_keys__ - given.keys()) if is_open else ():
        raise ValueError(f"{before}{name} is missing")
    made = {name: known[name](one, f"{before}{name}") if name in known else one for name, one in given.items()}
    try:
        return kind(**made)
    except TypeError as error:  # one is missing
        raise ValueError(f"{printable(path)}: {error}" if path else str(error)) from error


@lru_cache(maxsize=512)
def _fields(kind: Any, nan: bool) -> Mapping[str, _Decoder]:
    hints = get_type_hints(kind)
    names = hints if is_typeddict(kind) else [one.name for one in fields(kind)]
    return {name: _decoder(hints[name], nan) for name in names}


def _member(kind: type[Enum], value: object, path: str) -> Enum:
    if value not in [one.value for one in kind]:
        raise ValueError(f"{printable(path)} must be one of {', '.join(str(one.value) for one in kind)}")
    return kind(value)


def _plain(kind: type, nan: bool, value: Any, path: str) -> Any:
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        with suppress(OverflowError):
            return float(value)
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        words = [_IN_WORDS.get(one, one.__name__) for one in (kind, type(value))]
        raise ValueError(f"{printable(path)} must be {', not '.join(words)}")
    if not nan and value != value:
        raise ValueError(f"{printable(path)} must be a number")
    return value
