"""Python modules as source: found as an import would find them, parsed, never executed."""

import ast
import importlib.machinery
import importlib.util
import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from tuner.errors import UserError


@dataclass(frozen=True)
class Module:
    """A module's source, not executed. `package` is what its relative imports start from."""

    name: str
    package: str
    tree: ast.Module


OURS = ("note_rl.", "tuner.")
"""With what the names of this project's parts begin."""


def locate(target: str) -> tuple[Module, ast.stmt] | None:
    """The module that really defines a name, imports followed, and its statement there.

    What this project defines is looked for once: each check of a configuration asks for it a hundred times.
    """
    return _locate_once(target) if target.startswith(OURS) else _locate(target)


def _locate(target: str) -> tuple[Module, ast.stmt] | None:
    parts = target.split(".")
    spec, depth = find_deepest(parts)
    module = None if spec is None else parse_module(spec)
    if module is None or depth != len(parts) - 1:
        return None
    node = names_in(module).get(parts[-1])
    if isinstance(node, ast.ImportFrom):
        return locate(imported(module, node, parts[-1]))
    return None if node is None else (module, node)


_locate_once = lru_cache(maxsize=1024)(_locate)


def find_deepest(parts: list[str]) -> tuple[importlib.machinery.ModuleSpec | None, int]:
    """The spec of the longest prefix that is a module, and its number of parts. Parent packages stay unimported."""
    try:
        spec = importlib.util.find_spec(parts[0])
    except (ImportError, ValueError):
        return None, 0
    depth = 1
    while spec is not None and depth < len(parts) and spec.submodule_search_locations is not None:
        name = ".".join(parts[: depth + 1])
        inner = find_inside(name, list(spec.submodule_search_locations))
        if inner is None:
            break
        spec, depth = inner, depth + 1
    return spec, depth


def origin_of(name: str) -> str:
    """Where the module lies that a name begins with, or what Python calls that place; "": there is none."""
    with suppress(AttributeError, ImportError, ValueError):  # of names that are no paths
        spec, _ = find_deepest(name.partition(":")[0].split("."))
        if spec is not None and spec.origin is not None:
            return os.path.realpath(spec.origin) if spec.has_location else spec.origin
    return ""


def find_inside(name: str, places: Sequence[str]) -> importlib.machinery.ModuleSpec | None:
    """The spec of a module or package in the folders of its parent."""
    try:
        return importlib.machinery.PathFinder.find_spec(name, places)
    except (AttributeError, KeyError):  # a folder without __init__.py asks its parent, which is not imported
        spec = importlib.machinery.ModuleSpec(name, None, is_package=True)
        spec.submodule_search_locations = [str(Path(place) / name.rpartition(".")[2]) for place in places]
        return spec


def parse_module(spec: importlib.machinery.ModuleSpec) -> Module | None:
    """The module behind a spec; None if it is no Python file.

    Raises:
        UserError: It is one with a syntax error.
    """
    if spec.origin is None or not spec.origin.endswith(".py"):
        return None
    package = spec.name if spec.submodule_search_locations is not None else spec.name.rpartition(".")[0]
    return _parse_file(spec.name, package, spec.origin, Path(spec.origin).stat().st_mtime_ns)


@lru_cache(maxsize=256)
def _parse_file(name: str, package: str, origin: str, modified_ns: int) -> Module:
    """Cached until the file changes (`modified_ns` is part of the key)."""
    del modified_ns
    try:
        return Module(name, package, ast.parse(Path(origin).read_bytes()))
    except SyntaxError as error:
        line = "" if error.text is None else f": {error.text.strip()}"
        raise UserError(f"{origin}, line {error.lineno}: {error.msg}{line}") from error


def _statements(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Top-level statements, those inside `if` and `try` included."""
    for statement in body:
        yield statement
        if isinstance(statement, ast.If):
            yield from _statements(statement.body)
            yield from _statements(statement.orelse)
        elif isinstance(statement, ast.Try):
            for part in (statement.body, statement.orelse, statement.finalbody, *(h.body for h in statement.handlers)):
                yield from _statements(part)


@lru_cache(maxsize=256)
def names_in(module: Module) -> dict[str, ast.stmt]:
    """Definitions at the top level of a module, by name; "*" stands for names that are known only by running it."""
    names: dict[str, ast.stmt] = {}
    for statement in _statements(module.tree.body):
        if isinstance(statement, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            names["*" if statement.name == "__getattr__" else statement.name] = statement
        elif isinstance(statement, ast.Import | ast.ImportFrom):
            for alias in statement.names:
                names[alias.asname or alias.name.partition(".")[0]] = statement
        elif isinstance(statement, ast.Assign):
            names.update({target.id: statement for target in statement.targets if isinstance(target, ast.Name)})
        elif isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            names[statement.target.id] = statement
    return names


def imported(module: Module, node: ast.ImportFrom, name: str) -> str:
    """The full path of what `from ... import ...` calls `name`."""
    source = node.module or ""
    if node.level:
        package = module.package.split(".")
        source = ".".join([*package[: len(package) - node.level + 1], *([source] if source else [])])
    original = next(alias.name for alias in node.names if (alias.asname or alias.name.partition(".")[0]) == name)
    return f"{source}.{original}"


def last_name(node: ast.expr) -> str:
    """`dataclass` of `dataclass`, `dataclasses.dataclass` and `dataclass(frozen=True)`."""
    if isinstance(node, ast.Call):
        return last_name(node.func)
    if isinstance(node, ast.Subscript):
        return last_name(node.value)
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""
