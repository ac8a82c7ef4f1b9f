"""`--config-dir` of a run or a study: its files are data that `tuner` has written, and may be somebody else's.

A folder of groups of one's own is a part of the program: what it names is run. That of a run (`RUN/adapted`) or of a
study (`STUDY experiment=winner`) holds nothing but settings, so it is looked through before Hydra reads it.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import yaml

from tuner.config.trust import admit_code, foreign_code
from tuner.errors import UserError

_MADE_BY_TUNER: Final = (
    *("checkpoint.safetensors", "best.safetensors", "metrics.jsonl", "trial.json", "controller.lock"),
    *("report.json", "trials.csv", "experiment/winner.yaml"),
)
_RESOLVER = re.compile(r"\$\{[^{}]*:")  # ${oc.env:...} and its like; ${optimizer.learning_rate} is no harm
_PACKAGE: Final = "${backend.package}"


def admit_folder(folder: Path, trust: Sequence[str] = ()) -> None:
    """Refuses the groups of a run or study that name code nobody has vouched for; other folders are the user's own.

    Args:
        folder: Given as --config-dir.
        trust: Modules that the user has named.

    Raises:
        UserError: Names the file and what is wrong with it.
    """
    if not any((place / name).exists() for place in (folder, folder.absolute().parent) for name in _MADE_BY_TUNER):
        return
    for file in sorted(folder.rglob("*.y*ml")):
        try:
            content = yaml.safe_load(file.read_text())
        except (OSError, ValueError, yaml.YAMLError) as error:
            raise UserError(f"{file} cannot be read: {str(error).partition(chr(10))[0]}") from error
        if isinstance(content, Mapping):
            _admit_file(file, content, trust)


def _admit_file(file: Path, content: Mapping[str, Any], trust: Sequence[str]) -> None:
    chosen = [name for entry in content.get("defaults") or () for name in _names(entry)]
    if "hydra" in content or any("hydra" in name for name in chosen):
        raise UserError(f"{file} changes how Hydra runs, which no file of a run or study does: somebody has edited it")
    for value in _values(content):
        if isinstance(value, str) and _RESOLVER.search(value):
            raise UserError(f"{file} asks for {value}, which no file of a run or study does: somebody has edited it")
    plain = _with_package(content)
    found = list(foreign_code(plain))
    for place in _mappings(plain):  # which may become the environment or the framework: by a package or a reference
        moved = foreign_code({"env": place, **({"backend": place} if "module" in place else {})})
        found += [code for code in moved if code.path in ("env.id", "backend.module")]
    admit_code(found, file, trust)


def _names(entry: object) -> list[str]:
    return [str(part) for pair in entry.items() for part in pair] if isinstance(entry, Mapping) else [str(entry)]


def _mappings(node: object) -> Iterator[Mapping[str, Any]]:
    if isinstance(node, Mapping):
        yield node
    for inner in node.values() if isinstance(node, Mapping) else node if isinstance(node, list) else ():
        yield from _mappings(inner)


def _values(node: object) -> Iterator[object]:
    if isinstance(node, Mapping):
        for key, value in node.items():
            yield key
            yield from _values(value)
    elif isinstance(node, list):
        for value in node:
            yield from _values(value)
    else:
        yield node


def _with_package(node: Any) -> Any:
    """The same with the package of a backend named: which of the two makes no difference here."""
    if isinstance(node, Mapping):
        return {key: _with_package(value) for key, value in node.items()}
    if isinstance(node, list):
        return [_with_package(value) for value in node]
    return node.replace(_PACKAGE, "pytorch") if isinstance(node, str) else node
