"""The winner in two forms, a command line and an experiment file, both of which compose its config."""

import re
import shlex
from collections.abc import Collection, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override
from omegaconf import OmegaConf

from tuner.config.composition import compose, config_loader, to_json
from tuner.config.overrides import to_hydra
from tuner.config.paths import get_path, has_path
from tuner.trial.messages import JsonDict

_OF_A_RUN_ONLY = ("seed", "checkpoint", "tracker", "resume", "trust", "progress")
"""Parts of a training config that are not part of what was found."""
_REFERENCE = re.compile(r"\$\{(\w+(?:\.\w+)*)\}")


class TrainingConfigs:
    """Composes configs of `tuner train`, to find out what must be typed to get a given one.

    Args:
        overrides: As typed for the study; the part that `tuner train` knows is kept.
        config_dir: The user's own folder of groups.
    """

    def __init__(self, overrides: Sequence[str], config_dir: str | Path | None = None) -> None:
        self._loader = config_loader(config_dir)
        self._config_dir = config_dir
        plain = compose(self._loader, "train", [])
        roots = {str(key) for key in plain if key != "hydra"} | set(plain.hydra.runtime.choices)
        roots -= {*_OF_A_RUN_ONLY, "hydra"}
        self.kept = [str(override.input_line) for override in self._parsed(overrides) if _root(override) in roots]

    def overrides_for(self, wanted: JsonDict, values: Mapping[str, object]) -> list[str]:
        """Overrides of `tuner train` that compose `wanted`: what was typed, the values that were found, and the rest.

        Args:
            wanted: A run config.
            values: Its searched values by path; they are set first, since others may refer to them.
        """
        typed = self._parsed(self.kept)
        kept = [str(override.input_line) for override in typed if override.key_or_group not in values]
        added = {override.key_or_group for override in typed if override.is_add()}
        found = [f"{'+' if path in added else ''}{path}={to_hydra(value)}" for path, value in values.items()]
        overrides = [*kept, *found]
        return [*overrides, *_corrections(self._composed(overrides), _judged(wanted))]

    @staticmethod
    def _parsed(overrides: Sequence[str]) -> list[Override]:
        return OverridesParser.create().parse_overrides(list(overrides))

    def experiment(self, wanted: JsonDict, title: str, searched: Collection[str] = ()) -> str:
        """Text of an experiment file that composes `wanted`: the choices of all groups, and every value.

        A value that refers to another, such as the steps that a function gets, still does if that gives the same.

        Args:
            wanted: A run config.
            title: What it is, as a comment.
            searched: Paths of values that were found, which stay as they are.
        """
        defaults = [{f"override /{group}": choice} for group, choice in self._choices.items()]
        written = OmegaConf.to_container(compose(self._loader, "train", self.kept), resolve=False)
        content = {"defaults": defaults, **_judged(_referring(wanted, written, wanted, searched))}
        return f"# @package _global_\n{_commented(title)}{OmegaConf.to_yaml(OmegaConf.create(content))}"

    def removals(self, wanted: JsonDict) -> list[str]:
        """Overrides that an experiment file of `wanted` needs beside it: a file can add and change, but not remove."""
        choices = [f"{group}={choice}" for group, choice in self._choices.items()]
        config = compose(self._loader, "train", choices)
        config = OmegaConf.masked_copy(config, [str(key) for key in config if key != "hydra"])
        for path in OmegaConf.missing_keys(config):  # a function's name, a command, a data set
            OmegaConf.update(config, path, get_path(wanted, path))
        corrections = _corrections(_judged(to_json(config)), _judged(wanted))
        return [correction for correction in corrections if correction.startswith("~")]

    @cached_property
    def _choices(self) -> dict[str, str]:
        """The choice of each group; what an experiment or `network@network.critic` sets is among the values."""
        choices = compose(self._loader, "train", self.kept).hydra.runtime.choices
        ours = {name: choice for name, choice in choices.items() if not {"/", "@"} & set(name) and choice is not None}
        return {group: choice for group, choice in ours.items() if group not in ("experiment", *_OF_A_RUN_ONLY)}

    def command(self, overrides: Sequence[str]) -> str:
        """The command line with these overrides, quoted for a POSIX shell."""
        directory = ["--config-dir", str(self._config_dir)] if self._config_dir is not None else []
        return shlex.join(["tuner", "train", *directory, *overrides])

    def experiment_command(self, folder: Path, wanted: JsonDict, name: str = "winner", command: str = "train") -> str:
        """The command line for the experiment file of that name in a folder; the user's own groups are still found."""
        own = [f"hydra.searchpath=[{_searched(Path(self._config_dir).absolute())}]"] if self._config_dir else []
        line = ["tuner", command, "--config-dir", str(folder), *own, f"experiment={name}", *self.removals(wanted)]
        return shlex.join(line)

    def _composed(self, overrides: Sequence[str]) -> JsonDict:
        return _judged(to_json(compose(self._loader, "train", overrides)))


def _referring(
    part: JsonDict, written: object, config: JsonDict, searched: Collection[str], path: str = ""
) -> JsonDict:
    """The values, with references in the place of those that are written as such and have the same value.

    A reference to what only a run has, such as its seed, stays one, whatever the value.

    Args:
        part: Of the config.
        written: The same part as the files have it.
        config: The whole.
        searched: Paths of values that stay as they are.
        path: Of the part, with a dot behind it.
    """
    files: Mapping[Any, Any] = written if isinstance(written, Mapping) else {}
    found: JsonDict = {}
    for key, value in part.items():
        text = files.get(key)
        reference = _REFERENCE.fullmatch(text) if isinstance(text, str) else None
        if reference is not None and f"{path}{key}" not in searched and _is_at(reference[1], value, config):
            found[key] = text
        else:
            found[key] = (
                _referring(value, text, config, searched, f"{path}{key}.") if isinstance(value, dict) else value
            )
    return found


def _is_at(path: str, value: object, config: JsonDict) -> bool:
    if path.partition(".")[0] in _OF_A_RUN_ONLY:
        return True
    found = [get_path(config, path)] if has_path(config, path) else []
    return found == [value] and type(found[0]) is type(value)


def _root(override: Override) -> str:
    return str(override.key_or_group).partition(".")[0].partition("@")[0]


def _judged(config: JsonDict) -> JsonDict:
    return {key: value for key, value in config.items() if key not in _OF_A_RUN_ONLY}


def _corrections(composed: JsonDict, wanted: JsonDict, prefix: str = "") -> list[str]:
    """Overrides that turn one config into another."""
    corrections = [f"~{prefix}{key}" for key in composed if key not in wanted]
    for key, value in wanted.items():
        path = f"{prefix}{key}"
        if key not in composed:
            corrections.append(f"++{path}={to_hydra(value)}")
        elif isinstance(value, dict) and isinstance(composed[key], dict):
            corrections += _corrections(composed[key], value, f"{path}.")
        elif composed[key] != value:
            corrections.append(f"{path}={to_hydra(value)}")
    return corrections


def _searched(folder: Path) -> str:
    """A folder on Hydra's search path; quoted only if it must be, as it is quoted for the shell besides."""
    address = f"file://{folder}"
    return address if re.fullmatch(r"[\w./:-]+", address) else to_hydra(address)


def _commented(text: str) -> str:
    return "".join(f"# {line}\n" for line in text.splitlines())
