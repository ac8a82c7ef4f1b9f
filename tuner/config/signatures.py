"""The parameters of a class or function named in a config, read from its source: nothing is imported.

The configuration is checked in a process that must not import PyTorch or TensorFlow, so a `_target_` is found on the
import path as Python would find it, and its file is parsed. What cannot be known from the source (a name made at run
time, a C function) gives None and is left to the import later.
"""

import ast
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import takewhile

from tuner.config.sources import Module, find_deepest, imported, last_name, locate, names_in, parse_module
from tuner.errors import UserError
from tuner.support.names import did_you_mean


@dataclass(frozen=True)
class Argument:
    """One parameter: its annotation, and whether it must be given.

    Aliases in it are replaced by what they stand for; classes of the same package have their full path.
    """

    annotation: str | None = None
    required: bool = False


@dataclass(frozen=True)
class Signature:
    """The keyword parameters of a target; `is_open` if it takes any others too (`**kwargs`)."""

    target: str
    parameters: Mapping[str, Argument] = field(default_factory=dict)
    is_open: bool = False


def signature_of(target: str) -> Signature | None:
    """The signature of `package.module.Name`, or None where the source does not tell.

    Raises:
        UserError: There is no such module, or nothing of that name in it.
    """
    parts = target.split(".")
    spec, depth = find_deepest(parts)
    if spec is None:
        raise UserError(f"{target}: no module named {parts[0]!r} can be imported; install it or start where it lies")
    module = parse_module(spec)
    if module is None:
        return None
    if depth == len(parts):
        raise UserError(f"{target} is a module; name a class or a function in it")
    if depth < len(parts) - 1 and not _defines(module, parts[depth]):
        raise UserError(f"{target}: no module named {'.'.join(parts[: depth + 1])!r}")
    return _signature_in(module, tuple(parts[depth:]), target)


def home_of(target: str) -> str | None:
    """The module in which what a dotted name leads to is really defined, imports followed.

    None where the source does not tell: of C functions, of names that are made at run time, of modules.
    """
    parts = target.split(".")
    spec, depth = find_deepest(parts)
    module = None if spec is None else parse_module(spec)
    if module is None or depth == len(parts):
        return None
    node = names_in(module).get(parts[depth])
    if not isinstance(node, ast.Import | ast.ImportFrom):
        return None if node is None else module.name
    source = parts[depth]
    if isinstance(node, ast.ImportFrom):
        source = imported(module, node, source)
    else:
        source = next((alias.name for alias in node.names if alias.asname == source), source)
    followed = ".".join([source, *parts[depth + 1 :]])
    return None if followed == target else home_of(followed)


def class_constants(target: str) -> dict[str, object]:
    """The class attributes of a class and its base classes that are written as plain values: numbers, words, tuples.

    A value that is worked out is left out, and so is what it hides in a base class.
    """
    located = locate(target)
    return {} if located is None else dict(_constants_in(*located))


@lru_cache(maxsize=256)
def _constants_in(module: Module, node: ast.stmt) -> Mapping[str, object]:
    constants = {}
    for name, value in _nearest(module, node).items():
        with suppress(ValueError):
            if value is not None:
                constants[name] = ast.literal_eval(value)
    return constants


def class_named_in(target: str, attribute: str, key: str) -> str | None:
    """The full path of the class that a dictionary of classes, an attribute of a class, has at a key.

    Args:
        target: The class with the dictionary.
        attribute: The dictionary.
        key: Of the dictionary.

    Returns:
        None: the source does not show it.
    """
    located = locate(target)
    for module, node in () if located is None else base_classes(*located):
        value = class_attributes(node).get(attribute)
        if isinstance(value, ast.Dict):
            found = [
                named
                for one, named in zip(value.keys, value.values, strict=True)
                if ast.unparse(one or named) == repr(key)
            ]
            return _path_of(module, found[0]) if found else None
    return None


def class_methods(target: str) -> set[str]:
    """The names under which a class and its base classes define methods; without those that a class takes back."""
    located = locate(target)
    return set() if located is None else {name for name, value in _nearest(*located).items() if value is None}


@lru_cache(maxsize=256)
def _nearest(module: Module, node: ast.stmt) -> dict[str, ast.expr | None]:
    """The value of each name in the nearest of a class and its base classes; None: a method."""
    nearest: dict[str, ast.expr | None] = {}
    for _, one in base_classes(module, node):
        nearest = {**class_attributes(one), **nearest}
    return nearest


def class_attributes(node: ast.ClassDef) -> dict[str, ast.expr | None]:
    """The value of each name in a class body; None: a method."""
    found: dict[str, ast.expr | None] = {}
    for statement in node.body:
        if isinstance(statement, ast.Assign):
            found.update({one.id: statement.value for one in statement.targets if isinstance(one, ast.Name)})
        elif isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name) and statement.value:
            found[statement.target.id] = statement.value
        elif isinstance(statement, ast.FunctionDef):
            found[statement.name] = None
    return found


def base_classes(module: Module, node: ast.stmt) -> list[tuple[Module, ast.ClassDef]]:
    """A class and its base classes in the order in which Python looks, as far as their source is in sight."""
    found = {
        (one_module.name, one.name): (one_module, one) for one_module, one in reversed([*_downwards(module, node)])
    }
    return list(reversed(found.values()))


def _downwards(module: Module, node: ast.stmt) -> Iterator[tuple[Module, ast.ClassDef]]:
    """Each base class and what is behind it before the next one; the last of several places is where Python looks."""
    if isinstance(node, ast.ClassDef):
        yield module, node
        for base in node.bases:
            located = locate(_path_of(module, base))
            yield from () if located is None else _downwards(*located)


def _path_of(module: Module, base: ast.expr) -> str:
    """The full path of a base class, `DQN` or `agents.DQN`."""
    first, dot, rest = ast.unparse(base).partition(".")
    statement = names_in(module).get(first)
    if dot and isinstance(statement, ast.ImportFrom):
        return f"{imported(module, statement, first)}.{rest}"
    if dot and isinstance(statement, ast.Import):
        source = next((alias.name for alias in statement.names if alias.asname == first), first)
        return f"{source}.{rest}"
    return f"{module.name}.{first}{dot}{rest}"


def _defines(module: Module, name: str) -> bool:
    names = names_in(module)
    return name in names or "*" in names


@lru_cache(maxsize=256)
def _signature_in(module: Module, path: tuple[str, ...], target: str) -> Signature | None:
    """The signature of `path` (a name, or Class.method) in a module.

    It is worked out once: like an import it does not see what becomes of the files of other modules later.
    """
    names = names_in(module)
    node = names.get(path[0])
    if node is None:
        if "*" in names:
            return None
        public = [name for name in names if not name.startswith("_")]
        raise UserError(f"{target}: {module.name} has no {path[0]!r}{did_you_mean(path[0], public)}")
    if isinstance(node, ast.ImportFrom):
        return _follow(module, node, path, target)
    if isinstance(node, ast.Assign) and isinstance(node.value, ast.Name) and node.value.id != path[0]:
        return _signature_in(module, (node.value.id, *path[1:]), target) if node.value.id in names else None
    if isinstance(node, ast.ClassDef) and len(path) == 1:
        return _of_class(module, node, target)
    if isinstance(node, ast.FunctionDef) and len(path) == 1:
        return _of_function(module, node, target, skip_first=False)
    return None


def _follow(module: Module, node: ast.ImportFrom, path: tuple[str, ...], target: str) -> Signature | None:
    """The signature of a name that the module imported from another."""
    found = signature_of(".".join([imported(module, node, path[0]), *path[1:]]))
    return None if found is None else Signature(target, found.parameters, found.is_open)


def _of_function(module: Module, node: ast.FunctionDef, target: str, skip_first: bool) -> Signature:
    arguments, taken = node.args, taken_by(module, node)
    plain = [*arguments.posonlyargs, *arguments.args]
    is_plain = not node.decorator_list  # a decorator may give arguments of its own
    num_required = len(plain) - len(arguments.defaults) if is_plain else 0
    parameters = {
        argument.arg: Argument(_annotation(module, argument.annotation), index < num_required)
        for index, argument in enumerate(plain)
        if not (skip_first and index == 0)
    }
    for argument, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
        parameters[argument.arg] = Argument(_annotation(module, argument.annotation), default is None and is_plain)
    settings = None if taken is None else signature_of(taken)
    if settings is not None:
        parameters.popitem()
        return Signature(target, {**parameters, **settings.parameters})
    return Signature(target, parameters, arguments.kwarg is not None)


def taken_by(module: Module, node: ast.stmt) -> str | None:
    """The class whose fields are arguments of a function, or of the constructor of a class; None: there is none.

    See `note_rl.settings.field_arguments`.
    """
    if isinstance(node, ast.ClassDef):
        node = next((one for one in node.body if isinstance(one, ast.FunctionDef) and one.name == "__init__"), node)
    for one in node.decorator_list if isinstance(node, ast.FunctionDef) else ():
        if isinstance(one, ast.Call) and last_name(one) == "taking":
            return _path_of(module, one.args[0])
    return None


def _of_class(module: Module, node: ast.ClassDef, target: str) -> Signature | None:
    for name in ("__init__", "__new__"):
        for statement in node.body:
            if isinstance(statement, ast.FunctionDef) and statement.name == name:
                return _of_function(module, statement, target, skip_first=True)
    declared = _of_declaration(module, node, target)
    if declared is not None:
        return declared
    inherited = _of_bases(module, node, target)
    if inherited is None:
        return None
    is_dataclass = "dataclass" in map(last_name, node.decorator_list)
    arguments = _with_declared(module, node, inherited.parameters, all_fields=is_dataclass)
    return Signature(target, arguments, inherited.is_open)


def _of_declaration(module: Module, node: ast.ClassDef, target: str) -> Signature | None:
    """That of a constructor that is made of declared settings; None: it is another one, or a base class is unseen."""
    classes = base_classes(module, node)
    nearer = list(takewhile(lambda one: "dataclass_transform" not in map(last_name, one[1].decorator_list), classes))
    seen = all(locate(_path_of(one_module, base)) for one_module, one in nearer for base in one.bases)
    own = any(isinstance(one, ast.FunctionDef) and one.name == "__init__" for _, kind in nearer for one in kind.body)
    if len(nearer) == len(classes) or own or not seen:
        return None
    arguments: dict[str, Argument] = {}
    for one_module, one in reversed(nearer):
        arguments = _with_declared(one_module, one, arguments)
    return Signature(target, arguments)


def _of_bases(module: Module, node: ast.ClassDef, target: str) -> Signature | None:
    """The signature of the first base class that has parameters; None if a base is out of sight."""
    for base in node.bases:
        if last_name(base) in ("object", "ABC", "Protocol", "Generic"):
            continue
        if not isinstance(base, ast.Name):
            return None
        found = _signature_in(module, (base.id,), target)
        if found is None or found.parameters or found.is_open:
            return found
    return Signature(target)


def _with_declared(
    module: Module, node: ast.ClassDef, inherited: Mapping[str, Argument], *, all_fields: bool = False
) -> dict[str, Argument]:
    """The arguments of a constructor with those that the body of its class declares.

    Args:
        module: In which it stands.
        node: The class.
        inherited: The arguments of its base class.
        all_fields: Whether it is a dataclass, all of whose fields are arguments; otherwise settings are, see
            `note_rl.agents.declaration`.
    """
    arguments = dict(inherited)
    for statement in node.body:
        if not isinstance(statement, ast.AnnAssign) or not isinstance(statement.target, ast.Name):
            continue
        name, value, annotation = statement.target.id, statement.value, ast.unparse(statement.annotation)
        maker = last_name(value) if isinstance(value, ast.Call) else ""
        given = {one.arg: one.value for one in value.keywords} if isinstance(value, ast.Call) else {}
        if annotation.startswith("ClassVar") or annotation == "KW_ONLY" or not (all_fields or maker == "setting"):
            continue
        if ast.unparse(given.get("init", ast.Constant(True))) == "False":
            arguments.pop(name, None)
            continue
        has_none = isinstance(value, ast.Call) and not value.args and not {"default", "default_factory"} & given.keys()
        required = value is None or (maker in ("setting", "field") and has_none)
        arguments[name] = Argument(_annotation(module, statement.annotation), required)
    return arguments


def _annotation(module: Module, node: ast.expr | None) -> str | None:
    if isinstance(node, ast.Subscript) and last_name(node) == "InitVar":
        node = node.slice
    return (
        None if node is None else ast.unparse(_WithoutAliases(module).visit(ast.parse(ast.unparse(node), mode="eval")))
    )


class _WithoutAliases(ast.NodeTransformer):
    """Puts in the place of a name what it stands for, where its own package says so."""

    def __init__(self, module: Module) -> None:
        self._module = module
        self._package = module.name.partition(".")[0]

    def visit_Name(self, node: ast.Name) -> ast.expr:
        """An alias becomes its annotation; a class its full path."""
        module, statement = self._module, names_in(self._module).get(node.id)
        if isinstance(statement, ast.ImportFrom):
            path = imported(module, statement, node.id)
            found = locate(path) if path.startswith(f"{self._package}.") else None
            module, statement = found or (module, None)
        if isinstance(statement, ast.ClassDef):
            return ast.parse(f"{module.name}.{statement.name}", mode="eval").body
        value = statement.value if isinstance(statement, ast.Assign | ast.AnnAssign) else None
        if isinstance(value, ast.Subscript | ast.BinOp):
            expression: ast.expr = _WithoutAliases(module).visit(ast.parse(ast.unparse(value), mode="eval").body)
            return expression
        return node

    def visit_Subscript(self, node: ast.Subscript) -> ast.expr:
        """Leaves Literal[...] as it is: its items are values."""
        if last_name(node) != "Literal":
            self.generic_visit(node)
        return node
