"""`--config-dir` of a run or a study: its files are data that `tuner` has written, and may be somebody else's.

A folder of own groups is a part of the program: what it names is run. That of a run (`RUN/adapted`) or of a
study (`STUDY experiment=winner`) holds settings of runs and nothing else. So each of its files is looked through before
Hydra reads any, and what Hydra composes of them is looked through as well:

- they lie in the folder, and choose by names that do not lead out of it;
- they set parts of a run, and ranges of numbers to search: nothing of Hydra, of the study, of where it is kept or where
  trials run;
- they refer to settings only: nothing is looked up or worked out;
- they name code that comes with `tuner`, that was used here before, or that the user has named.
"""

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import fields
from pathlib import Path
from typing import Any, Final, NoReturn

import yaml
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from tuner.config.composition import RunConfig, conf_folder, without_reference
from tuner.config.modules_used import note
from tuner.config.paths import num_values
from tuner.config.trust import Foreign, admit_code, asks_for_more, foreign_code
from tuner.errors import UserError

_MADE_BY_TUNER: Final = (
    *("checkpoint.safetensors", "best.safetensors", "metrics.jsonl", "trial.json", "controller.lock"),
    *("report.json", "trials.csv", "experiment/winner.yaml"),
)
_PARTS: Final = frozenset(part.name for part in fields(RunConfig))
_BEYOND: Final = frozenset(
    (
        *("hydra", "storage", "executor", "study", "sampler", "pruner", "finder"),
        *("progress", "trust", "resume", "warm_start"),
    )
)
"""Groups and settings that are no part of a run, and no business of a file that describes one."""
_GLOBAL: Final = re.compile(r"#\s*@package\s+_global_")
_HEADER: Final = re.compile(r"#\s*@")
_STEP: Final = re.compile(r"(?!\.\.?$)[^/@:$\\{}\x00]+")  # of a path: no "..", package, address or reference
_PACKAGE: Final = "${backend.package}"
_MOST_BYTES: Final = 10_000_000
_MOST_VALUES: Final = 100_000


def is_of_a_run(folder: Path) -> bool:
    """Whether `tuner` has made a folder, or the one that it is in; others are the user's own."""
    return any((place / name).exists() for place in (folder, folder.absolute().parent) for name in _MADE_BY_TUNER)


def admit_folder(folder: Path, trust: Sequence[str] = ()) -> None:
    """Refuses the folder of a run or study one of whose files is more than the settings of a run.

    Args:
        folder: Given as --config-dir.
        trust: Modules that the user has named.

    Raises:
        UserError: Names the file and what is wrong with it.
    """
    for file in _files(folder):
        text = _text(file)
        is_global = _admit_header(file, text)
        try:
            content = yaml.safe_load(text)
        except (ValueError, RecursionError, yaml.YAMLError) as error:
            raise UserError(f"{file} cannot be read: {str(error).partition(chr(10))[0]}") from error
        if num_values(content, _MOST_VALUES) >= _MOST_VALUES:  # some lines of YAML can stand for more than fits memory
            raise UserError(f"{file} is no configuration: it holds {_MOST_VALUES:,} values and more")
        if isinstance(content, Mapping):
            _admit_content(file, content, is_global)
            is_space = file.relative_to(folder).parts[0] == "space"
            _admit_space(file, content if is_space else content.get("space"))
            admit_code(list(_code_in(content)), file, trust)


def admit_composed(folder: Path, composed: DictConfig, without: DictConfig, trust: Sequence[str] = ()) -> None:
    """Refuses a configuration in which such a folder has changed how Hydra runs, or what code is built.

    Args:
        folder: For messages.
        composed: Of what was chosen on the command line, its values left aside.
        without: The same without that folder.
        trust: Modules that the user has named.

    Raises:
        UserError: Says what has changed.
    """
    if _of_hydra(composed) != _of_hydra(without):
        _refuse(folder, "changes how Hydra runs")
    ours, resolved = _run_in(without), _run_in(composed)
    vouched = {code.mark for code in foreign_code(ours)}
    for name in sorted(_lost(composed, resolved) - _lost(without, ours)):
        _refuse(folder, f"refers to nothing in {name}")  # until something is typed: what it is then was not looked at
    for value in _values(resolved):
        if isinstance(value, str) and "${" in value:
            _refuse(folder, f"asks for {value}")
    admit_code([code for code in foreign_code(resolved) if code.mark not in vouched], folder, trust)


def remember_written(content: Mapping[str, Any], composed: DictConfig) -> None:
    """Notes the code in a file that `tuner` itself writes, so that the file is admitted on this machine.

    Args:
        content: Of the file.
        composed: What it composes to.
    """
    note(code.mark for code in (*_code_in(content), *foreign_code(_run_in(composed))))


def _refuse(file: Path, what: str) -> NoReturn:
    raise UserError(
        f"{file} {what}, which no file of a run or study does: somebody has edited it. Groups of your own belong in "
        "another folder"
    )


def _files(folder: Path) -> Iterator[Path]:
    """Every file that Hydra might read; links that lead out of the folder are refused."""
    for place, inner, names in os.walk(folder):
        for name in sorted([*inner, *names]):
            path = Path(place, name)
            is_config, is_folder = name.lower().endswith(".yaml"), path.is_dir()
            leads_on = is_config or (is_folder and path.is_symlink())
            if not leads_on:
                continue
            if not path.resolve().is_relative_to(folder.resolve()):
                _refuse(path, f"is a link to {path.resolve()}")
            parts = path.relative_to(folder).parts
            if is_folder and parts[0] != "wandb":  # what is in it would be looked at under another name only
                _refuse(path, "is a linked folder")
            if parts[0] in _BEYOND or (len(parts) == 1 and (conf_folder() / name).is_file()):
                _refuse(path, "stands for a choice that is no part of a run")
            if is_config and not is_folder:
                yield path


def _text(file: Path) -> str:
    """The content of a file of settings; a pipe, for which Hydra would wait, is refused."""
    try:
        if not file.is_file() or file.stat().st_size > _MOST_BYTES:
            raise UserError(f"{file} is no configuration: it is no file, or has more than {_MOST_BYTES:,} bytes")
        return file.read_bytes().decode()
    except (OSError, ValueError) as error:
        raise UserError(f"{file} cannot be read: {error}") from error


def _admit_header(file: Path, text: str) -> bool:
    """Whether the file sets more than its own group. Another package would put it anywhere."""
    headers = [line.strip() for line in text.splitlines() if _HEADER.match(line.strip())]
    for header in headers:
        if not _GLOBAL.fullmatch(header):
            _refuse(file, f"begins with {header}")
    return bool(headers)


def _admit_content(file: Path, content: Mapping[Any, Any], is_global: bool) -> None:
    for chosen in _listed(content.get("defaults")):
        _admit_choice(file, chosen)
    known = {*_PARTS, "defaults", "space"}
    strange = [str(key) for key in content if (key not in known if is_global else key == "hydra")]
    if strange:
        _refuse(file, "changes how Hydra runs" if "hydra" in strange else f"sets {strange[0]}")
    for value in _values(content):
        if isinstance(value, str) and asks_for_more(value, _BEYOND):
            _refuse(file, f"asks for {value}")


def _admit_space(file: Path, space: object) -> None:
    """Numbers only: a word might be the name of a class or of an environment, which trials would build."""
    words = [value for value in _leaves(space) if isinstance(value, str)]
    if words:
        _refuse(file, f"lets {words[0]!r} be searched, and not numbers only")


def _leaves(node: object) -> Iterator[object]:
    if isinstance(node, Mapping | list):
        for inner in node.values() if isinstance(node, Mapping) else node:
            yield from _leaves(inner)
    else:
        yield node


def _admit_choice(file: Path, entry: object) -> None:
    """An entry of a defaults list: the choice of a group, or a file beside this one."""
    for key, value in entry.items() if isinstance(entry, Mapping) else [("", entry)]:
        *kinds, group = str(key).split() or [""]
        names = [str(one) for one in _listed(value)]
        if not {"optional", "override"}.issuperset(kinds):
            _refuse(file, f"chooses {entry}")
        steps = [step for path in (group, *names) if path for step in path.removeprefix("/").split("/")]
        if "hydra" in steps:
            _refuse(file, "changes how Hydra runs")
        is_absolute = group.startswith("/") or any(name.startswith("/") for name in names)
        if not all(map(_STEP.fullmatch, steps)) or (is_absolute and (len(steps) < 2 or steps[0] in _BEYOND)):
            _refuse(file, f"chooses {entry}")


def _listed(node: object) -> list[Any]:
    return node if isinstance(node, list) else [] if node is None else [node]


def _code_in(content: Mapping[str, Any]) -> Iterator[Foreign]:
    plain = _with_package(content)
    yield from foreign_code(plain)
    for place in _mappings(plain):  # which may become the environment or the framework: by a package or a reference
        moved = foreign_code({"env": place, **({"backend": place} if "module" in place else {})})
        yield from (code for code in moved if code.path in ("env.id", "backend.module"))


def _of_hydra(config: DictConfig) -> Any:
    """Hydra's own section, but for what it notes of this very composition."""
    section: Any = OmegaConf.to_container(config.hydra, resolve=False)
    choices = {name: choice for name, choice in section["runtime"]["choices"].items() if name.startswith("hydra/")}
    job = {key: value for key, value in section["job"].items() if key != "override_dirname"}
    left = {key: value for key, value in section.items() if key not in ("runtime", "overrides")}
    return {**left, "job": job, "choices": choices}


def _run_in(config: DictConfig) -> dict[str, Any]:
    """The parts of a run, resolved, but for those that cannot be."""
    found = {}
    for name in _PARTS & set(map(str, config)):
        with suppress(OmegaConfBaseException):
            value = config[name]
            found[name] = OmegaConf.to_container(value, resolve=True) if OmegaConf.is_config(value) else value
    return without_reference(found)


def _lost(config: DictConfig, resolved: Mapping[str, Any]) -> set[str]:
    """The parts of a run that refer to nothing."""
    return {name for name in map(str, config) if name in _PARTS and name not in resolved}


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
