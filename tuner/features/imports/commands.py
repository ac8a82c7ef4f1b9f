"""The command `tuner import`."""

import re
from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING, cast

from tuner.commands.command import Command
from tuner.commands.features import InCommands

if TYPE_CHECKING:
    from tuner.trial.messages import JsonDict

_SETTINGS = {"agent": "agent_name", "storage": "source", "name": "name", "file": "file"}
"""Texts that are typed with any characters, two of them by the name of a group: their keys in conf/import.yaml."""
_CHOICE = re.compile(r"[\w-]*")
"""A choice of the group storage; a URL and the path of a file have other characters."""


def _typed(overrides: Sequence[str]) -> Sequence[str]:
    """The overrides; `storage=URL` is the other program's storage, and a choice of ours stays one."""
    return [_as_setting(word) for word in overrides]


def _as_setting(word: str) -> str:
    key, equals, value = word.partition("=")
    if not equals or key not in _SETTINGS or value == "null" or (key == "storage" and _CHOICE.fullmatch(value)):
        return word
    quoted = value if value[:1] in ("'", '"') else "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
    return f"{_SETTINGS[key]}={quoted}"


def _zoo(config: "JsonDict") -> Sequence[str]:
    """Overrides with the Zoo's settings for a study's agent and environment."""
    return cast("Sequence[str]", import_module("tuner.features.imports.zoo_line").zoo_baseline(config))


PART = InCommands(
    commands=(
        Command(
            "import",
            "studies and settings of other programs",
            "import",
            has_check=True,
            positional="what",
            takes_several=True,
            usage="study|zoo [...]",
            module="tuner.features.imports.import_command",
            typed=_typed,
        ),
    ),
    baselines={"zoo": _zoo},
)
