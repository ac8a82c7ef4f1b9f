"""Objects as plain data that are the same in another session, by which a study is found again.

Of functions and classes of the user's own these are their code and what they hold on to, so that another environment
makes another study.
"""

import functools
import hashlib
import inspect
from collections.abc import Callable, Iterator, Mapping
from types import CellType, CodeType, FunctionType
from typing import Any

import numpy as np

_LIBRARIES = ("note_rl.", "builtins", "keras", "torch", "tensorflow", "abc", "typing", "gymnasium", "numpy")

_PLAIN = (bool, int, float, str, tuple, list, dict, np.ndarray, np.generic)


def digest(content: bytes) -> str:
    """A short name of some content."""
    return hashlib.sha256(content).hexdigest()[:16]


def source(kind: type[Any]) -> str:
    """The code of a class and of what it inherits from outside of this package and of libraries."""
    texts = []
    for one in kind.__mro__:
        if not _is_of_a_library(one):
            try:
                texts.append(inspect.getsource(one))
            except (OSError, TypeError):  # typed into an interpreter
                texts.append(one.__qualname__)
    return "\n".join(texts)


def shown(value: Any, depth: int = 6) -> Any:
    """A value as plain data: what objects hold instead of their addresses.

    Args:
        value: Anything.
        depth: How far into containers and objects; deeper is only the name of a class.
    """
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, np.generic):
        return value.item()
    if not depth:
        return type(value).__qualname__
    if isinstance(value, Mapping):
        return {str(key): shown(item, depth - 1) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [shown(item, depth - 1) for item in value]
    if hasattr(value, "__array__") and not isinstance(value, type):
        return digest(np.asarray(value.detach().cpu() if hasattr(value, "detach") else value).tobytes())
    return _made(value, depth)


def _made(value: Any, depth: int) -> Any:
    """A class, a function or another object."""
    if isinstance(value, functools.partial):
        return [shown(part, depth - 1) for part in (value.func, value.args, value.keywords)]
    if isinstance(value, type) and _is_of_a_library(value):
        return value.__qualname__
    if isinstance(value, type):
        methods = [own for own in vars(value).values() if inspect.isfunction(own)]
        constants = [shown(one, depth - 1) for own in methods for one in _globals_of(own, _PLAIN)]
        return {"kind": value.__qualname__, "code": digest(source(value).encode()), "constants": constants}
    if inspect.isroutine(value):
        return _routine(value, depth)
    if not hasattr(value, "__dict__"):
        return type(value).__qualname__
    held = {name: item for name, item in vars(value).items() if not name.startswith("_")}
    return {"kind": shown(type(value), depth), **shown(held, depth)}


def _routine(value: Callable[..., Any], depth: int) -> Any:
    """A function with its code, its defaults, and what it refers to."""
    plain = getattr(value, "__func__", value)
    if not isinstance(plain, FunctionType) or _is_of_a_library(plain):
        return getattr(value, "__qualname__", type(value).__qualname__)
    cells = [cell.cell_contents for cell in plain.__closure__ or () if not _is_empty(cell)]
    own = getattr(value, "__self__", None)
    held = (
        plain.__defaults__,
        plain.__kwdefaults__,
        cells,
        list(_globals_of(plain, (*_PLAIN, FunctionType, type))),
        own,
    )
    code = digest(_code(plain.__code__).encode())
    return {"kind": plain.__qualname__, "code": code, "held": [shown(part, depth - 1) for part in held]}


def _globals_of(function: FunctionType, kinds: tuple[type, ...]) -> Iterator[Any]:
    """Objects that it may read from its module, of these kinds."""
    named = (function.__globals__.get(name) for name in function.__code__.co_names)
    return (found for found in named if isinstance(found, kinds))


def _code(code: CodeType) -> str:
    """Instructions and constants, those of inner functions included; neither line numbers nor the file."""
    inner = [_code(one) if isinstance(one, CodeType) else repr(one) for one in code.co_consts]
    return repr((code.co_code, code.co_names, code.co_varnames, inner))


def _is_empty(cell: CellType) -> bool:
    try:
        return cell.cell_contents is None
    except ValueError:  # not filled yet
        return True


def _is_of_a_library(value: Any) -> bool:
    return str(value.__module__).startswith(_LIBRARIES)
