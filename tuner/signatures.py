"""The parameters of a class or function named in a config, read from its source: nothing is imported.

The configuration is checked in a process that must not import PyTorch or TensorFlow, so a `_target_` is found on the
import path as Python would find it, and its file is parsed. What cannot be told from the source (a name made at run
time, a C function) gives None and is left to the import later.
"""

import ast
import importlib.machinery
import importlib.util
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from tuner.errors import UserError
from tuner.names import did_you_mean


@dataclass(frozen=True)
class Parameter:
    """One parameter: its annotation as written in the source, and whether it must be given."""

    annotation: str | None = None
    required: bool = False


@dataclass(frozen=True)
class Signature:
    """The keyword parameters of a target; `is_open` if it takes any others too (`**kwargs`)."""

    target: str
    parameters: Mapping[str, Parameter] = field(default_factory=dict)
    is_open: bool = False


@dataclass(frozen=True)
class _Module:
    """A module's source, not executed. `package` is what its relative imports start from."""

    name: str
    package: str
    tree: ast.Module


def signature_of(target: str) -> Signature | None:
    """The signature of `package.module.Name`, or None where the source does not tell.

    Raises:
        UserError: There is no such module, or nothing of that name in it.
    """
    parts = target.split(".")
    spec, depth = _find_deepest(parts)
    if spec is None:
        raise UserError(f"{target}: no module named {parts[0]!r} can be imported; install it or start where it lies")
    module = _parse(spec)
    if module is None:
        return None
    if depth == len(parts):
        raise UserError(f"{target} is a module; name a class or a function in it")
    if depth < len(parts) - 1 and not _defines(module, parts[depth]):
        raise UserError(f"{target}: no module named {'.'.join(parts[: depth + 1])!r}")
    return _signature_in(module, parts[depth:], target)


def home_of(target: str) -> str | None:
    """The module in which what a dotted name leads to is really defined, imports followed.

    None where the source does not tell: of C functions, of names that are made at run time, of modules.
    """
    parts = target.split(".")
    spec, depth = _find_deepest(parts)
    module = None if spec is None else _parse(spec)
    if module is None or depth == len(parts):
        return None
    node = _names(module).get(parts[depth])
    if not isinstance(node, ast.Import | ast.ImportFrom):
        return None if node is None else module.name
    source = parts[depth]
    if isinstance(node, ast.ImportFrom):
        source = _imported(module, node, source)
    else:
        source = next((alias.name for alias in node.names if alias.asname == source), source)
    followed = ".".join([source, *parts[depth + 1 :]])
    return None if followed == target else home_of(followed)


def constructor_calls(target: str) -> frozenset[str]:
    """The names of the functions that a class calls in its constructor or in that of a base class."""
    constructors = [method for node in _classes(target) for method in node.body if _is_constructor(method)]
    return frozenset(_last_name(call) for body in constructors for call in ast.walk(body) if isinstance(call, ast.Call))


def attributes_read(target: str) -> frozenset[str]:
    """The attributes that the methods of a class and of its base classes read of `self`."""
    expressions = [node for body in _classes(target) for node in ast.walk(body) if isinstance(node, ast.Attribute)]
    return frozenset(
        node.attr for node in expressions if isinstance(node.ctx, ast.Load) and _last_name(node.value) == "self"
    )


def _classes(target: str) -> Iterator[ast.ClassDef]:
    """A class and its base classes, as far as their source is in sight."""
    located = _locate(target)
    if located is None:
        return
    module, node = located
    if isinstance(node, ast.ClassDef):
        yield node
        for base in node.bases:
            if isinstance(base, ast.Name):
                yield from _classes(f"{module.name}.{base.id}")


def _is_constructor(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.FunctionDef) and statement.name == "__init__"


def _locate(target: str) -> tuple[_Module, ast.stmt] | None:
    """The module that really defines a name, imports followed, and its statement there."""
    parts = target.split(".")
    spec, depth = _find_deepest(parts)
    module = None if spec is None else _parse(spec)
    if module is None or depth != len(parts) - 1:
        return None
    node = _names(module).get(parts[-1])
    if isinstance(node, ast.ImportFrom):
        return _locate(_imported(module, node, parts[-1]))
    return None if node is None else (module, node)


def _find_deepest(parts: list[str]) -> tuple[importlib.machinery.ModuleSpec | None, int]:
    """The spec of the longest prefix that is a module, and its number of parts. Parent packages stay unimported."""
    try:
        spec = importlib.util.find_spec(parts[0])
    except (ImportError, ValueError):
        return None, 0
    depth = 1
    while spec is not None and depth < len(parts) and spec.submodule_search_locations is not None:
        name = ".".join(parts[: depth + 1])
        inner = importlib.machinery.PathFinder.find_spec(name, list(spec.submodule_search_locations))
        if inner is None:
            break
        spec, depth = inner, depth + 1
    return spec, depth


def _parse(spec: importlib.machinery.ModuleSpec) -> _Module | None:
    if spec.origin is None or not spec.origin.endswith(".py"):
        return None
    package = spec.name if spec.submodule_search_locations is not None else spec.name.rpartition(".")[0]
    return _parse_file(spec.name, package, spec.origin, Path(spec.origin).stat().st_mtime_ns)


@lru_cache(maxsize=256)
def _parse_file(name: str, package: str, origin: str, modified_ns: int) -> _Module | None:
    """Cached until the file changes (`modified_ns` is part of the key)."""
    del modified_ns
    try:
        return _Module(name, package, ast.parse(Path(origin).read_bytes()))
    except SyntaxError:
        return None  # importing it will show where, with a traceback of the user's own file


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


def _names(module: _Module) -> dict[str, ast.stmt]:
    """What a module defines at its top level, by name; "*" stands for names that only running it would tell."""
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


def _defines(module: _Module, name: str) -> bool:
    names = _names(module)
    return name in names or "*" in names


def _signature_in(module: _Module, path: list[str], target: str) -> Signature | None:
    """The signature of `path` (a name, or Class.method) in a module."""
    names = _names(module)
    node = names.get(path[0])
    if node is None:
        if "*" in names:
            return None
        public = [name for name in names if not name.startswith("_")]
        raise UserError(f"{target}: {module.name} has no {path[0]!r}{did_you_mean(path[0], public)}")
    if isinstance(node, ast.ImportFrom):
        return _follow(module, node, path, target)
    if isinstance(node, ast.ClassDef) and len(path) == 1:
        return _of_class(module, node, target)
    if isinstance(node, ast.FunctionDef) and len(path) == 1:
        return _of_function(node, target, skip_first=False)
    return None


def _follow(module: _Module, node: ast.ImportFrom, path: list[str], target: str) -> Signature | None:
    """The signature of a name that the module imported from another."""
    found = signature_of(".".join([_imported(module, node, path[0]), *path[1:]]))
    return None if found is None else Signature(target, found.parameters, found.is_open)


def _imported(module: _Module, node: ast.ImportFrom, name: str) -> str:
    """The full path of what `from ... import ...` calls `name`."""
    source = node.module or ""
    if node.level:
        package = module.package.split(".")
        source = ".".join([*package[: len(package) - node.level + 1], *([source] if source else [])])
    original = next(alias.name for alias in node.names if (alias.asname or alias.name.partition(".")[0]) == name)
    return f"{source}.{original}"


def _of_function(node: ast.FunctionDef, target: str, skip_first: bool) -> Signature:
    arguments = node.args
    plain = [*arguments.posonlyargs, *arguments.args]
    num_required = len(plain) - len(arguments.defaults)
    parameters = {
        argument.arg: Parameter(_unparse(argument.annotation), index < num_required)
        for index, argument in enumerate(plain)
        if not (skip_first and index == 0)
    }
    for argument, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
        parameters[argument.arg] = Parameter(_unparse(argument.annotation), default is None)
    return Signature(target, parameters, arguments.kwarg is not None)


def _of_class(module: _Module, node: ast.ClassDef, target: str) -> Signature | None:
    for name in ("__init__", "__new__"):
        for statement in node.body:
            if isinstance(statement, ast.FunctionDef) and statement.name == name:
                return _of_function(statement, target, skip_first=True)
    inherited = _of_bases(module, node, target)
    if not any(_last_name(decorator) == "dataclass" for decorator in node.decorator_list):
        return inherited
    if inherited is None:
        return None
    return Signature(target, {**inherited.parameters, **_fields(node)}, inherited.is_open)


def _of_bases(module: _Module, node: ast.ClassDef, target: str) -> Signature | None:
    """The signature of the first base class that has parameters; None if a base is out of sight."""
    for base in node.bases:
        if _last_name(base) in ("object", "ABC", "Protocol", "Generic"):
            continue
        if not isinstance(base, ast.Name):
            return None
        found = _signature_in(module, [base.id], target)
        if found is None or found.parameters or found.is_open:
            return found
    return Signature(target)


def _fields(node: ast.ClassDef) -> dict[str, Parameter]:
    """The constructor parameters of a dataclass that its own body declares."""
    fields = {}
    for statement in node.body:
        if not isinstance(statement, ast.AnnAssign) or not isinstance(statement.target, ast.Name):
            continue
        annotation = _unparse(statement.annotation) or ""
        if (
            annotation.startswith("ClassVar")
            or annotation == "KW_ONLY"
            or "init=False" in (_unparse(statement.value) or "")
        ):
            continue
        fields[statement.target.id] = Parameter(annotation, statement.value is None)
    return fields


def _last_name(node: ast.expr) -> str:
    """`dataclass` of `dataclass`, `dataclasses.dataclass` and `dataclass(frozen=True)`."""
    if isinstance(node, ast.Call):
        return _last_name(node.func)
    if isinstance(node, ast.Subscript):
        return _last_name(node.value)
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def _unparse(node: ast.expr | None) -> str | None:
    return None if node is None else ast.unparse(node)
