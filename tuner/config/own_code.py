"""The code that a search answers for: the user's own files, with what they import of their own.

Nothing is imported here: modules are found as Python would find them, and read.
"""

import ast
import hashlib
import sys
import sysconfig
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import note_rl
import tuner
from tuner.config.modules_used import files_of_command
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
            sources.add(Path(file), getattr(module, "__package__", None) or "")
    for target in targets:
        sources.add_module(target)
    root = Path(getattr(main, "__file__", None) or Path.cwd() / "main").resolve().parent
    return {_short(file, root): digest for file, digest in sorted(sources.digests.items())}


def digests_of_config(config: Mapping[str, Any]) -> dict[str, str]:
    """Digests of the user's own files that runs with a configuration execute, by their path from this folder.

    These are modules of functions, agents and environments, and scripts that a command names.

    Args:
        config: Of a run, resolved.
    """
    sources = _Sources()
    for code in foreign_code(config):
        sources.add_module(code.name.partition(":")[0])
        for file in map(Path, files_of_command(code.node)):
            if file.suffix.lower() in _SOURCES:
                sources.add(file, "")
    return {_short(file, Path.cwd()): digest for file, digest in sorted(sources.digests.items())}


_SOURCES = frozenset((".cfg", ".ini", ".jl", ".js", ".lua", ".py", ".r", ".sh", ".toml", ".yaml", ".yml"))
"""Suffixes of files that are code or its settings: a command may name files that runs write, too."""


def _short(file: Path, root: Path) -> str:
    return file.relative_to(root).as_posix() if file.is_relative_to(root) else str(file)


@dataclass
class _Sources:
    """The files found so far, and their digests."""

    digests: dict[Path, str] = field(default_factory=dict)
    _looked_up: set[tuple[str, Path | None]] = field(default_factory=set)

    def add(self, file: Path, package: str) -> None:
        """Takes in a file, if it is the application's own, and what it imports."""
        file = file.resolve()
        if file in self.digests or not is_own(file):
            return
        try:
            content = file.read_bytes()
        except OSError:
            return
        self.digests[file] = hashlib.sha256(content).hexdigest()[:12]
        if file.suffix == ".py":
            try:
                tree = ast.parse(content)
            except (SyntaxError, ValueError):
                return
            for name in _imported(tree, package):
                self.add_module(name, None if package else file.parent)

    def add_module(self, name: str, beside: Path | None = None) -> None:
        """Takes in a module, and the packages that it stands in; the end of a dotted path may be no module.

        Args:
            name: Dotted.
            beside: The folder of a script that imports it, in which Python looks first.
        """
        if (name, beside) in self._looked_up:
            return
        self._looked_up.add((name, beside))
        for package, file in _files_of(name, beside):
            self.add(file, package)


def is_own(file: Path) -> bool:
    """Whether a file is none of code that is installed, nor one of ours."""
    installed = {"site-packages", "dist-packages"} & set(file.parts)
    return not installed and not any(file.is_relative_to(folder) for folder in _OTHERS)


def _files_of(name: str, beside: Path | None) -> Iterator[tuple[str, Path]]:
    """The file of each package on the way to a module, and its own, with the package that its imports start from."""
    first = name.partition(".")[0]
    is_beside = beside is not None and ((beside / f"{first}.py").is_file() or (beside / first).is_dir())
    places = [str(beside)] if is_beside else None
    parts = name.split(".")
    if not all(part.isidentifier() for part in parts) or parts[0] in sys.stdlib_module_names:
        return
    for length in range(1, len(parts) + 1):
        module = ".".join(parts[:length])
        finders = (getattr(finder, "find_spec", None) for finder in sys.meta_path)
        spec = next((found for find in finders if find and (found := find(module, places))), None)
        if spec is None:
            return
        is_package = spec.submodule_search_locations is not None
        if spec.has_location and spec.origin:
            file = Path(spec.origin)
            if not is_own(file.resolve()):
                return
            yield module if is_package else module.rpartition(".")[0], file
        if not is_package:
            return
        places = list(spec.submodule_search_locations or ())


def _imported(tree: ast.AST, package: str) -> Iterator[str]:
    """Dotted paths of all that is imported anywhere in a file."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            base = ".".join([*filter(None, above), *filter(None, [node.module])])
            yield base
            yield from (f"{base}.{alias.name}" if base else alias.name for alias in node.names)
