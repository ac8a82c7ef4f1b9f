"""The code that a search answers for: the user's own files, with what they import of their own.

Nothing is imported here: modules are found as Python would find them, and read.
"""

import ast
import hashlib
import re
import sys
import sysconfig
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any, Final

import note_rl
import tuner
from tuner.config.command_words import (
    PYTHON,
    SHELL,
    CommandFile,
    code_in,
    commands_in,
    python_path_of,
)
from tuner.config.modules_used import files_of_command
from tuner.config.sources import find_inside
from tuner.config.trust import foreign_code

_OTHERS = {
    *(Path(sysconfig.get_path(name)).resolve() for name in ("stdlib", "platstdlib", "purelib", "platlib", "scripts")),
    *(Path(str(package.__file__)).resolve().parent for package in (note_rl, tuner)),
}
"""Folders of code that is installed rather than worked on; our own is in the versions of a study."""


def digests_of(task_function: Callable[..., Any], targets: Iterable[str] = ()) -> dict[str, str]:
    """Digests of the application's own files, by their path from the folder of its main file.

    Args:
        task_function: The function that `@hydra.main` decorates.
        targets: Dotted paths that its configuration names, as in `_target_`.
    """
    sources = _Sources()
    main = sys.modules["__main__"]
    own = sys.modules.get(getattr(task_function, "__module__", ""))
    for module in (main, own):
        file = getattr(module, "__file__", None)
        if file is not None:
            sources.add(Path(file), getattr(module, "__package__", None) or "", is_script=True)
    for target in targets:
        sources.add_module(target)
    root = Path(getattr(main, "__file__", None) or Path.cwd() / "main").resolve().parent
    return {_short(file, root): digest for file, digest in sorted(sources.digests.items())}


def digests_of_config(config: Mapping[str, Any]) -> dict[str, str]:
    """Digests of the user's own files that runs with a configuration execute, by their path from this folder.

    These are modules of functions, classes, agents and environments, and scripts that a command names.

    Args:
        config: Of a run, resolved.
    """
    sources = _Sources()
    for code in foreign_code(config):
        sources.add_module(code.name.partition(":")[0])
        sources.folders = _folders_named(code.node.get("command"))
        for named in files_of_command(code.node):
            sources.add_of_command(named)
        sources.folders = ()
    return {_short(file, Path.cwd()): digest for file, digest in sorted(sources.digests.items())}


IN_A_MODULE: Final = r"([A-Za-z_][\w.]*):[\w./-]+"
"""`my_package.envs:mine/MyEnv-v0`: Gymnasium imports what stands before the colon."""
_ENTRY_POINT: Final = re.compile(rf"""["']{IN_A_MODULE}["']""")
_IMPORTING: Final = r"""\b(?:{})\(\s*(?:name\s*=\s*)?["']([\w.]+)["']"""
_RENAMED: Final = re.compile(r"\bimport_module\s+as\s+(\w+)")
_BLOCKS: Final = ("body", "orelse", "finalbody", "handlers", "cases")
"""Attributes of statements that hold further statements."""


def _folders_named(command: object) -> tuple[Path, ...]:
    """The folders in which a command has Python look for modules."""
    return tuple(Path(folder).resolve() for folder in python_path_of(command if isinstance(command, str) else ""))


def _short(file: Path, root: Path) -> str:
    return file.relative_to(root).as_posix() if file.is_relative_to(root) else str(file)


@dataclass
class _Sources:
    """The files found so far, and their digests.

    Attributes:
        digests: By file.
        folders: Where scripts look for modules, behind their own folder.
    """

    digests: dict[Path, str] = field(default_factory=dict)
    folders: tuple[Path, ...] = ()
    _scripts: set[Path] = field(default_factory=set)
    _looked_up: set[tuple[str, tuple[Path, ...]]] = field(default_factory=set)

    def add_of_command(self, named: CommandFile) -> None:
        """Takes in a file that a command names, if it is code or its settings, and what it names or imports."""
        if named.is_code:
            self.add(Path(named.place), "", is_script=True, language=named.language)

    def add(self, file: Path, package: str, is_script: bool = False, language: str = "py") -> None:
        """Takes in a file, if it is the application's own, and what it imports; a script, if imported, too, as one."""
        file = file.resolve()
        if file in self._scripts or (file in self.digests and not is_script) or not is_own(file):
            return
        try:
            about = file.stat()
            found = _read(file, package, is_script, language, (about.st_mtime_ns, about.st_size))
        except OSError:
            return
        self.digests[file] = found.digest
        if is_script:
            self._scripts.add(file)
        places = () if package else (file.parent, *self.folders)
        for name in found.modules:
            self.add_module(name, places)
        for named in code_in(found.commands, str(file.parent)):
            self.add_of_command(named)

    def add_module(self, name: str, places: tuple[Path, ...] = ()) -> None:
        """Takes in a module, and the packages that it stands in; the end of a dotted path may be no module.

        Args:
            name: Dotted.
            places: The folders in which Python looks first: that of the script that imports it, and what is typed.
        """
        if (name, places) in self._looked_up:
            return
        self._looked_up.add((name, places))
        for package, file in _files_of(name, places):
            self.add(file, package)


@dataclass(frozen=True)
class _Source:
    """A file.

    Attributes:
        digest: Of its content.
        modules: Dotted paths that it imports, or names as text.
        commands: Of a shell script: their words.
    """

    digest: str
    modules: tuple[str, ...] = ()
    commands: tuple[tuple[str, ...], ...] = ()


@lru_cache(maxsize=10_000)
def _read(file: Path, package: str, is_script: bool, language: str, changed: tuple[int, int]) -> _Source:
    """Reads a file, once for each time that it has changed.

    Args:
        file: It.
        package: From which its imports start.
        is_script: Whether it is started rather than imported, so that the part for `__main__` is a part of it.
        language: The name of an interpreter, or the suffix of files that it reads.
        changed: When it did, and its size.
    """
    del changed
    content = file.read_bytes()
    if SHELL.fullmatch(language):
        return _Source(_digest(content), commands=tuple(commands_in(content.decode(errors="replace"))))
    if language != "py" and not PYTHON.fullmatch(language):
        return _Source(_digest(content))
    try:
        body = ast.parse(content).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return _Source(_digest(content))
    lines = content.splitlines()  # however they end: git may change that
    for part in [] if is_script else [*filter(_is_for_main, reversed(body))]:
        del lines[part.lineno - 1 : part.end_lineno]
        body.remove(part)
    content = b"\n".join(lines).rstrip()
    named = _named_as_text(content.decode(errors="replace"), package)
    return _Source(_digest(content), tuple(dict.fromkeys([*_imported(body, package), *named])))


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:12]


def _is_for_main(part: ast.stmt) -> bool:
    """Whether it is `if __name__ == "__main__":` without an else: a call of `tuner.tune` may stand there."""
    if not isinstance(part, ast.If) or part.orelse or not isinstance(part.test, ast.Compare):
        return False
    sides = [part.test.left, *part.test.comparators]
    names = [one.id for one in sides if isinstance(one, ast.Name)]
    texts = [one.value for one in sides if isinstance(one, ast.Constant)]
    return names == ["__name__"] and texts == ["__main__"] and isinstance(part.test.ops[0], ast.Eq)


def is_own(file: Path) -> bool:
    """Whether a file is none of code that is installed, nor one of ours."""
    installed = {"site-packages", "dist-packages"} & set(file.parts)
    return not installed and not any(file.is_relative_to(folder) for folder in _OTHERS)


def _files_of(name: str, first_places: Sequence[Path]) -> Iterator[tuple[str, Path]]:
    """The file of each package on the way to a module, and its own, with the package that its imports start from."""
    parts = name.split(".")
    if not all(part.isidentifier() for part in parts):
        return
    places: list[str] = []
    for length in range(1, len(parts) + 1):
        module = ".".join(parts[:length])
        spec = find_inside(module, places) if places else _first_of(module, first_places)
        if spec is None:
            return
        is_package = spec.submodule_search_locations is not None
        if spec.has_location and spec.origin:
            file = Path(spec.origin)
            if not is_own(file.resolve()):
                return
            yield module if is_package else module.rpartition(".")[0], file
        places = list(spec.submodule_search_locations or ())
        if not places:
            return


def _first_of(name: str, first_places: Sequence[Path]) -> ModuleSpec | None:
    """The spec of a module outside of packages; a folder without __init__.py comes last."""
    inside = [str(one) for one in first_places if _has_module(one, name)]
    if inside or name in sys.stdlib_module_names:
        return find_inside(name, inside[:1])
    finders = (getattr(finder, "find_spec", None) for finder in sys.meta_path)
    found = next((spec for find in finders if find and (spec := find(name, None))), None)
    return found or find_inside(name, [str(one) for one in first_places])


def _has_module(folder: Path, name: str) -> bool:
    return (folder / f"{name}.py").is_file() or (folder / name / "__init__.py").is_file()


def _imported(body: Iterable[ast.stmt], package: str) -> Iterator[str]:
    """Dotted paths of all that is imported anywhere in these statements."""
    for node in _statements(body):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = ".".join([*filter(None, _above(package, node.level)), *filter(None, [node.module])])
            yield base
            yield from (f"{base}.{alias.name}" if base else alias.name for alias in node.names)


def _statements(nodes: Iterable[ast.AST]) -> Iterator[ast.AST]:
    """These, and all within them; of expressions, which are most of a file, there are none."""
    waiting = [*nodes]
    while waiting:
        node = waiting.pop()
        yield node
        for name in _BLOCKS:
            waiting += getattr(node, name, ())


def _named_as_text(text: str, package: str) -> Iterator[str]:
    """Dotted paths of modules that a file names as text: entry points, and what is imported by a function."""
    yield from (found[1] for found in _ENTRY_POINT.finditer(text))
    functions = "|".join(["import_module", "__import__", *_RENAMED.findall(text)])
    for found in re.finditer(_IMPORTING.format(functions), text):
        module = found[1].lstrip(".")
        yield ".".join([*filter(None, _above(package, len(found[1]) - len(module))), module])


def _above(package: str, level: int) -> list[str]:
    """The package that a relative import starts from; none: the import is not relative."""
    parts = package.split(".")
    return parts[: len(parts) - level + 1] if level else []
