"""`tuner options GROUP`: the choices of a configuration group, each with its settings as its file has them."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import yaml
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from tuner.commands.help_page import NAMES, settings_in
from tuner.config.comments import IS_GLOBAL, choice_built_on, comments_of
from tuner.config.composition import HYDRA_KEYS, conf_folder
from tuner.config.installed_groups import installed_folders
from tuner.config.overrides import to_hydra
from tuner.errors import UserError
from tuner.support.help_columns import in_columns, wrapped_text
from tuner.support.plain_text import one_line

_NOT_OURS: Final = "hydra"
_AGENTS: Final = "agent"


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
    """The choices of a group, by name.

    Raises:
        UserError: A file of the group cannot be read.
    """
    folders = _folders(config_dir)
    return [_choice(folders, group, name) for name in _names_in(folders, group)]


def is_group(word: str, config_dir: str | Path | None = None) -> bool:
    """Whether a word means a group: `agent` and any other name of one, unless an agent is called so."""
    agents = _names_in(_folders(config_dir), _AGENTS)
    return word in group_names(config_dir) and word not in agents


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


def _names_in(folders: Sequence[Path], group: str) -> list[str]:
    """The names of a group's choices; of a file in an inner folder `sbx/ppo`."""
    paths = ((path, folder / group) for folder in folders for path in (folder / group).rglob("*.yaml"))
    return sorted({path.relative_to(inside).with_suffix("").as_posix() for path, inside in paths})


def _choice(folders: Sequence[Path], group: str, name: str) -> GroupChoice:
    files = list(_files(folders, group, name))  # before the comments: refuses what is no YAML
    comments = comments_of(folders, group, name)
    settings: dict[str, GroupSetting] = {}
    for prefix, content in files:
        settings |= {
            one.path: GroupSetting(one.path, None if one.is_group else one.value, one.text, one.is_group)
            for one in settings_in(content, prefix, comments.texts)
            if one.text or not one.is_group
        }
    return GroupChoice(name, comments.title, tuple(settings.values()))


def _files(folders: Sequence[Path], group: str, name: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """The prefix of the keys of a file, and its content; the files of its group that it builds on come first.

    Raises:
        UserError: A file cannot be read.
    """
    path = next((path for folder in folders if (path := folder / group / f"{name}.yaml").is_file()), None)
    if path is None:
        return
    try:
        text = path.read_text(encoding="utf-8")
        content: Any = OmegaConf.to_container(OmegaConf.load(path), resolve=False)
    except (OmegaConfBaseException, OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise UserError(f"{path} cannot be read: {one_line(str(error))}") from error
    if not isinstance(content, dict):
        return
    defaults = content.pop("defaults", None)
    for entry in defaults if isinstance(defaults, list) else ():
        if other := choice_built_on(group, name, entry):
            yield from _files(folders, group, other)
    prefix = "" if IS_GLOBAL.search(text) else f"{group}."
    yield prefix, {key: value for key, value in content.items() if key not in HYDRA_KEYS}


def _typed(setting: GroupSetting) -> str:
    if setting.is_group:
        return setting.key
    default = setting.default if isinstance(setting.default, str) else to_hydra(setting.default)
    return f"{setting.key}={default}"
