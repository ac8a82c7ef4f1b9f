"""The winner in two forms, a command line and an experiment file, both of which compose its config."""

import re
import shlex
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override
from omegaconf import DictConfig, OmegaConf

from tuner.checking.config_folders import remember_written
from tuner.config.composition import compose, config_loader, to_json
from tuner.config.overrides import to_hydra
from tuner.config.paths import get_path, has_path
from tuner.config.typed_command import folder_words
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

        Left out is what the choices refer to and has the same value, such as the environment that a library gets: so it
        follows what is typed beside the file. So do numbers that were typed as references, and those to the seed. The
        code that it names is known from then on.

        Args:
            wanted: A run config.
            title: What it is, as a comment.
            searched: Paths of values that were found, which stay as they are.
        """
        defaults = [{f"override /{group}": choice} for group, choice in self._choices.items()]
        typed: Any = OmegaConf.to_container(self._typed, resolve=False)
        chosen: Any = OmegaConf.to_container(self._chosen, resolve=False)
        chosen.pop("hydra")  # no part of a run
        values = _judged(_Values(wanted, searched).written(wanted, chosen, typed))
        content = {"defaults": defaults, **values}
        composed = DictConfig(chosen)
        composed.merge_with(values)
        remember_written(content, composed)
        return f"# @package _global_\n{_commented(title)}{OmegaConf.to_yaml(OmegaConf.create(content))}"

    def removals(self, wanted: JsonDict) -> list[str]:
        """Overrides that an experiment file of `wanted` needs beside it: a file can add and change, but not remove."""
        config = OmegaConf.masked_copy(self._chosen, [str(key) for key in self._chosen if key != "hydra"])
        for path in OmegaConf.missing_keys(config):  # a function's name, a command, a data set
            OmegaConf.update(config, path, get_path(wanted, path))
        corrections = _corrections(_judged(to_json(config)), _judged(wanted))
        return [correction for correction in corrections if correction.startswith("~")]

    @cached_property
    def _typed(self) -> DictConfig:
        """The config of what was typed."""
        return compose(self._loader, "train", self.kept)

    @cached_property
    def _choices(self) -> dict[str, str]:
        """The choice of each group; what an experiment or `network@network.critic` sets is among the values."""
        choices = self._typed.hydra.runtime.choices
        ours = {name: choice for name, choice in choices.items() if not {"/", "@"} & set(name) and choice is not None}
        return {group: choice for group, choice in ours.items() if group not in ("experiment", *_OF_A_RUN_ONLY)}

    @cached_property
    def _chosen(self) -> DictConfig:
        """The config of these choices, without anything else that is typed."""
        return compose(self._loader, "train", [f"{group}={choice}" for group, choice in self._choices.items()])

    def command(self, overrides: Sequence[str]) -> str:
        """The command line with these overrides, quoted for a POSIX shell."""
        return shlex.join(["tuner", "train", *folder_words(self._config_dir), *overrides])

    def experiment_command(self, folder: Path, wanted: JsonDict, name: str = "winner", command: str = "train") -> str:
        """The command line for the experiment file of that name in a folder; the user's own groups are still found."""
        own = [f"hydra.searchpath=[{_searched(Path(self._config_dir).absolute())}]"] if self._config_dir else []
        line = ["tuner", command, *folder_words(folder), *own, f"experiment={name}", *self.removals(wanted)]
        return shlex.join(line)

    def _composed(self, overrides: Sequence[str]) -> JsonDict:
        return _judged(to_json(compose(self._loader, "train", overrides)))


@dataclass(frozen=True)
class _Values:
    """The values of an experiment file.

    Attributes:
        config: That it is to compose.
        searched: Paths of values that were found, which stay as they are.
    """

    config: JsonDict
    searched: Collection[str]

    def written(self, part: JsonDict, chosen: object, typed: object, path: str = "") -> JsonDict:
        """Those of a part.

        Args:
            part: Of the config.
            chosen: The same part as the files of the choices have it.
            typed: As it is with what was typed.
            path: Of the part, with a dot behind it.
        """
        found: JsonDict = {}
        for key, value in part.items():
            there, text = _at(chosen, key), _at(typed, key)
            is_found = any(f"{one}.".startswith(f"{path}{key}.") for one in self.searched)
            if not is_found and self._follows(there, value):
                continue
            if isinstance(value, dict):
                found[key] = self.written(value, there, text, f"{path}{key}.")
            else:
                refers = not is_found and isinstance(value, int | float) and self._follows(text, value)
                found[key] = text if refers else value
        return found

    def _follows(self, text: object, value: object) -> bool:
        """Whether it is a reference to the same value, or to the seed, which is not part of what was found."""
        reference = _REFERENCE.fullmatch(text) if isinstance(text, str) else None
        if reference is None or not has_path(self.config, reference[1]):
            return False
        there = get_path(self.config, reference[1])
        return reference[1] == "seed" or (there == value and type(there) is type(value))


def _at(node: object, key: str) -> object:
    return node.get(key) if isinstance(node, Mapping) else None


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
