"""Settings as they are typed, in the order of a command line, and what of an entry has no place among them."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import yaml

from tuner.config.composition import conf_folder
from tuner.config.overrides import to_hydra
from tuner.config.paths import get_path
from tuner.errors import UserError
from tuner.features.imports.zoo_files import Falling, Symbol, ZooEntry
from tuner.trial.messages import JsonDict

NOT_HERE: Final = "there is no such thing here"


@dataclass
class Written:
    """An entry of the Zoo as it is typed here.

    Attributes:
        choices: Of groups, by group.
        values: By config path.
        added: Words that add what the configuration does not have.
        remarks: One line for each setting that has no counterpart, or another meaning.
    """

    choices: dict[str, str] = field(default_factory=dict)
    values: dict[str, Any] = field(default_factory=dict)
    added: list[str] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)

    @property
    def chosen(self) -> list[str]:
        """The choices, as typed."""
        return [f"{group}={choice}" for group, choice in self.choices.items()]

    def words(self, config: JsonDict) -> list[str]:
        """All that is typed, without what is so anyway.

        Args:
            config: As the choices alone make it.
        """
        changed = [
            f"{path}={to_hydra(value)}" for path, value in self.values.items() if not _is_so(config, path, value)
        ]
        return [*self.chosen, *changed, *self.added]

    def remark(self, name: str, value: object, why: str = NOT_HERE) -> None:
        """Adds a line on a setting."""
        self.remarks.append(f"{name}={shown(value)}: {why}")


def _is_so(config: JsonDict, path: str, value: object) -> bool:
    try:
        found = get_path(config, path)
    except KeyError:
        return False
    same_kind = isinstance(found, bool) == isinstance(value, bool)
    return bool(found == value) and same_kind


def shown(value: object) -> str:
    """A value of the Zoo's as it is written in its files."""
    if isinstance(value, Falling):
        return f"lin_{value.start:g}"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, Symbol | str):
        return str(value)
    if isinstance(value, list):
        return f"[{', '.join(map(shown, value))}]"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{key}: {shown(one)}' for key, one in value.items())}}}"
    return str(value)


def add_environment(written: Written, entry: ZooEntry) -> None:
    """Writes which environment it is, and how it is called."""
    if entry.game is not None:
        written.choices["env"] = "atari"
        written.values["env.game"] = entry.game
    elif (choice := _choice_of(entry.env)) is not None:
        written.choices["env"] = choice
    else:
        written.values["env.id"] = entry.env
    written.values["env.num_envs"] = entry.num_envs
    arguments = entry.given.get("env_kwargs") or {}
    if not isinstance(arguments, dict):
        raise UserError(f"{entry.file}: env_kwargs of {entry.key} must be settings by name, not {arguments}")
    written.added += [f"+env.kwargs.{name}={to_hydra(value)}" for name, value in arguments.items()]


def _choice_of(env: str) -> str | None:
    """The file of an environment of that id."""
    for path in sorted(Path(conf_folder(), "env").glob("*.yaml")):
        found = yaml.safe_load(path.read_text())
        if found.get("id", (found.get("env") or {}).get("id")) == env:
            return path.stem
    return None


def wrappers_of(entry: ZooEntry) -> list[str]:
    """The classes around the environment, by name."""
    listed = entry.given.get("env_wrapper") or []
    listed = listed if isinstance(listed, list) else [listed]
    return [str(next(iter(one))) if isinstance(one, dict) else str(one) for one in listed]


def normalised(entry: ZooEntry) -> tuple[bool, bool, JsonDict]:
    """Whether observations and rewards are normalised, and further settings of that."""
    found = entry.given.get("normalize", False)
    if not isinstance(found, dict):
        return bool(found), bool(found), {}
    rest = {key: value for key, value in found.items() if key not in ("norm_obs", "norm_reward", "gamma")}
    return bool(found.get("norm_obs", True)), bool(found.get("norm_reward", True)), rest


def whole(entry: ZooEntry, name: str) -> int:
    """A whole number among the settings.

    Raises:
        UserError: It is none.
    """
    value = entry.settings.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float) or value != int(value):
        raise UserError(f"{entry.file}: {name} of {entry.key} must be a whole number, not {shown(value)}")
    return int(value)


def number(entry: ZooEntry, name: str) -> float:
    """A number among the settings; of one that falls, where it starts.

    Raises:
        UserError: It is none.
    """
    value = entry.settings.get(name)
    value = value.start if isinstance(value, Falling) else value
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise UserError(f"{entry.file}: {name} of {entry.key} must be a number, not {shown(value)}")
    return value


def layers_of(entry: ZooEntry) -> Sequence[Any] | dict[str, Any] | None:
    """Sizes of hidden layers, or those of policy and values apart; None: the file says nothing."""
    found = entry.policy_arguments.get("net_arch")
    if isinstance(found, list) and len(found) == 1 and isinstance(found[0], dict):
        found = found[0]  # as Stable-Baselines3 took it before 1.8
    if found is None or isinstance(found, list | dict):
        return found
    raise UserError(f"{entry.file}: net_arch of {entry.key} must be a list or a dict, not {shown(found)}")
