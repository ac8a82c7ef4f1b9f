"""`tuner options GROUP`: the choices of a configuration group, each with its settings as its file has them."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import yaml
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from tuner.commands.help_page import NAMES, settings_in
from tuner.config.comments import IS_GLOBAL, comments_of
from tuner.config.composition import HYDRA_KEYS, conf_folder
from tuner.config.installed_groups import installed_folders
from tuner.config.overrides import to_hydra
from tuner.errors import UserError
from tuner.support.help_columns import in_columns, wrapped_text
from tuner.support.plain_text import one_line

_NOT_OURS: Final = "hydra"


@dataclass(frozen=True)
class GroupSetting:
    """A setting of a choice, or a group of its settings that has a comment.

    Attributes:
        key: Typed before the `=`.
        default: As in the file, references unresolved; of a group None.
        text: The comment of the file.
        is_group: Whether its own settings follow.
    """

    key: str
    default: Any
    text: str
    is_group: bool


@dataclass(frozen=True)
class GroupChoice:
    """A choice of a group.

    Attributes:
        name: Typed behind the `=`.
        title: The first sentence of its file.
        settings: In the order of its file, those of the files that it builds on first.
    """

    name: str
    title: str
    settings: tuple[GroupSetting, ...]


def group_names(config_dir: str | Path | None = None) -> set[str]:
    """The configuration groups there are."""
    inner = (path for folder in _folders(config_dir) if folder.is_dir() for path in folder.iterdir())
    return {path.name for path in inner if path.is_dir() and next(path.glob("*.yaml"), None)} - {_NOT_OURS}


def choices_in(group: str, config_dir: str | Path | None = None) -> list[GroupChoice]:
    """The choices of a group, by name."""
    folders = _folders(config_dir)
    names = sorted({path.stem for folder in folders for path in (folder / group).glob("*.yaml")})
    return [_choice(folders, group, name) for name in names]


def group_text(group: str, choices: Sequence[GroupChoice], width: int | None) -> str:
    """The choices as lines for a terminal of a width; None: it is none."""
    paragraphs = []
    for one in choices:
        head = f"{group}={one.name}"
        rows = [(_typed(setting), setting.text) for setting in one.settings]
        title = wrapped_text(f"{head}: {one.title}" if one.title else head, width)
        paragraphs.append("\n".join([*title, *in_columns(rows, NAMES, width)]))
    return "\n\n".join(paragraphs) + "\n"


def group_json(group: str, choices: Sequence[GroupChoice]) -> str:
    """The choices as JSON."""
    return json.dumps({"group": group, "choices": [asdict(one) for one in choices]}, indent=2) + "\n"


def _folders(config_dir: str | Path | None) -> list[Path]:
    return [*([Path(config_dir)] if config_dir else []), conf_folder(), *installed_folders(conf_folder())]


def _choice(folders: Sequence[Path], group: str, name: str) -> GroupChoice:
    comments = comments_of(folders, group, name)
    settings = _settings(folders, group, name, comments.texts)
    return GroupChoice(name, comments.title, tuple(settings.values()))


def _settings(folders: Sequence[Path], group: str, name: str, texts: Mapping[str, str]) -> dict[str, GroupSetting]:
    """By key, the settings of a file and of those in its own folder that it builds on."""
    path = next((path for folder in folders if (path := folder / group / f"{name}.yaml").is_file()), None)
    if path is None:
        return {}
    text = path.read_text(encoding="utf-8")
    try:
        content: Any = OmegaConf.to_container(OmegaConf.load(path), resolve=False)
    except (OmegaConfBaseException, OSError, yaml.YAMLError) as error:
        raise UserError(f"{path}: {one_line(str(error))}") from error
    if not isinstance(content, dict):
        return {}
    found: dict[str, GroupSetting] = {}
    for other in content.pop("defaults", None) or ():
        if isinstance(other, str) and other != "_self_":
            found |= _settings(folders, group, other, texts)
    prefix = "" if IS_GLOBAL.search(text) else f"{group}."
    own = {key: value for key, value in content.items() if key not in HYDRA_KEYS}
    found |= {
        one.path: GroupSetting(one.path, None if one.is_group else one.value, one.text, one.is_group)
        for one in settings_in(own, prefix, texts)
        if one.text or not one.is_group
    }
    return found


def _typed(setting: GroupSetting) -> str:
    if setting.is_group:
        return setting.key
    default = setting.default if isinstance(setting.default, str) else to_hydra(setting.default)
    return f"{setting.key}={default}"
