"""Folders of groups that installed packages bring: the entry-point group `tuner.conf`.

A package declares which of its packages holds a folder of groups, in the form of conf/. In its pyproject.toml:

    [project.entry-points."tuner.conf"]
    mlflow = "tuner_mlflow.conf"        # its file tracker/mlflow.yaml is tracker=mlflow

Nothing of the package is imported to read it. Its folder is looked through behind conf/ and behind the user's own
--config-dir, so it adds choices and changes none; a file whose name is taken is left out with a warning. To install a
package is to trust it with what you type: a choice of its files is run like one of ours. Folders of others are another
matter (`tuner.config.trust`): a run that was sent to you may name a class of such a package with arguments of its own,
such as an address to send to, and nobody has looked through these classes for that; so they are asked about
(trust=tuner_mlflow), but for what your own runs have used.
"""

import logging
import sys
from dataclasses import dataclass
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Final

from tuner.config.sources import find_deepest

GROUP: Final = "tuner.conf"

_logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class InstalledGroups:
    """A folder of groups.

    Attributes:
        package: The installed package, as pip calls it.
        folder: Where its files are.
        choices: Those that it adds, as they are typed: tracker=mlflow.
    """

    package: str
    folder: Path
    choices: tuple[str, ...]


def installed_groups(ours: Path) -> tuple[InstalledGroups, ...]:
    """The folders of all installed packages, in the order of their names; read once, unless the import path changes.

    Args:
        ours: The folder of the groups that come with `tuner`.
    """
    return _found_on(tuple(sys.path), ours)


def installed_folders(ours: Path) -> list[Path]:
    """Where the groups of installed packages lie; see `installed_groups`."""
    return [one.folder for one in installed_groups(ours)]


@cache
def _found_on(import_path: tuple[str, ...], ours: Path) -> tuple[InstalledGroups, ...]:
    """Cached by the import path, which decides what is found."""
    del import_path
    found: dict[Path, InstalledGroups] = {}
    entries = sorted(entry_points(group=GROUP), key=lambda one: (one.name, one.value))
    taken = dict.fromkeys(_choices_in(ours), "tuner") if entries else {}
    for entry in entries:
        folder = _folder_of(entry)
        package = (entry.dist.name if entry.dist is not None else None) or entry.name
        if folder is None or next(folder.rglob("*.yaml"), None) is None:
            _logger.warning(
                "the installed package %s declares %s = %s for %s, which is no folder of groups with files such as "
                "tracker/mine.yaml: it is left out",
                *(package, entry.name, entry.value, GROUP),
            )
        elif folder not in found:  # an editable install may be found twice
            choices = _choices_in(folder)
            added = tuple(choice for choice in choices if choice not in taken)
            for choice in sorted({*choices} - {*added}):
                _logger.warning(
                    "the installed package %s brings %s, which is a choice of %s: it is left out; its file needs "
                    "another name",
                    *(package, choice, taken[choice]),
                )
            taken |= dict.fromkeys(added, package)
            found[folder] = InstalledGroups(package, folder, added)
    return tuple(found.values())


def _choices_in(folder: Path) -> list[str]:
    """As they are typed."""
    return sorted(f"{file.parent.relative_to(folder).as_posix()}={file.stem}" for file in folder.glob("*/*.yaml"))


def _folder_of(entry: EntryPoint) -> Path | None:
    """The folder of a package, found without importing it."""
    parts = entry.value.split(".")
    spec, depth = find_deepest(parts) if all(map(str.isidentifier, parts)) else (None, 0)
    places = spec.submodule_search_locations if spec is not None and depth == len(parts) else None
    folders = [Path(place).resolve() for place in places or () if Path(place).is_dir()]
    if not folders and spec is not None and spec.submodule_search_locations is not None and depth == len(parts) - 1:
        folders = [Path(place, parts[-1]).resolve() for place in spec.submodule_search_locations]  # without __init__.py
    return next((folder for folder in folders if folder.is_dir()), None)
