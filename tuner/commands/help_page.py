"""`tuner COMMAND --help`: the choices there are, and every setting as composed with what it is."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from hydra.core.config_loader import ConfigLoader
from omegaconf import DictConfig, OmegaConf

from tuner.commands import Command
from tuner.commands.preflight import compose_or_explain
from tuner.config.comments import Comments, comments_of
from tuner.config.composition import HYDRA_KEYS, conf_folder, config_loader
from tuner.config.installed_groups import installed_folders
from tuner.config.overrides import to_hydra
from tuner.support.help_columns import in_columns, wrapped_text

NAMES: Final = 34
"""Columns of the settings."""

_HYDRA: Final = "hydra"
"""Hydra's own groups and settings, which --hydra-help tells of."""


def help_page(
    command: Command, overrides: Sequence[str], config_dir: str | None, config_name: str, width: int | None
) -> str:
    """The page.

    Args:
        command: The command that the page is about.
        overrides: As typed: the settings are shown with them.
        config_dir: A user's own folder of groups.
        config_name: The primary config.
        width: Columns of the terminal; None: it is none, and lines are as long as they come.

    Raises:
        UserError: The overrides do not compose.
    """
    loader = config_loader(config_dir)
    config = compose_or_explain(loader, config_name, overrides)
    chosen = chosen_in(config)
    about, texts = texts_of(chosen, config_dir, config_name)
    choices = list(_choices(loader, chosen))
    listed = in_columns(choices, max((len(group) for group, _ in choices), default=0), width)
    paragraphs = [
        [*wrapped_text(f"usage: tuner {command.name} {command.usage}", width), *wrapped_text(command.summary, width)],
        [f"{_CHOICES}:", *listed] if listed else [],
        [f"{_SETTINGS}:"],
        *_sections(config, chosen, about, texts, width),
        wrapped_text(" ".join(str(config.hydra.help.footer).split()), width),
    ]
    return "\n\n".join("\n".join(lines) for lines in paragraphs if lines) + "\n"


_CHOICES: Final = "Choices, GROUP=CHOICE"
_SETTINGS: Final = "Settings, KEY=VALUE, as composed"


def chosen_in(config: DictConfig) -> dict[str, str]:
    """By group, the choice, in a configuration that has Hydra's own part."""
    choices = {str(group): choice for group, choice in config.hydra.runtime.choices.items()}
    return {group: str(name) for group, name in choices.items() if name is not None and not group.startswith(_HYDRA)}


def texts_of(
    chosen: Mapping[str, str], config_dir: str | Path | None, config_name: str
) -> tuple[dict[str, Comments], dict[str, str]]:
    """By group, the comments of its choice; and all their texts by path, with those of the primary config."""
    folders = [*([Path(config_dir)] if config_dir else []), conf_folder(), *installed_folders(conf_folder())]
    about = {group: comments_of(folders, group, choice) for group, choice in chosen.items()}
    texts = dict(comments_of(folders, "", config_name).texts)
    for comments in about.values():
        texts.update(comments.texts)
    return about, texts


def _choices(loader: ConfigLoader, chosen: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    for group in sorted({*chosen, *(["experiment"] if "agent" in chosen else [])}):
        yield group, ", ".join(sorted(loader.get_group_options(group)))


def _sections(
    config: DictConfig,
    chosen: Mapping[str, str],
    about: Mapping[str, Comments],
    texts: Mapping[str, str],
    width: int | None,
) -> Iterator[list[str]]:
    """A paragraph for each part of the configuration, the values at its top first."""
    plain: Any = OmegaConf.to_container(config, resolve=False)
    nodes = {key: node for key, node in plain.items() if key != _HYDRA}
    values = {key: node for key, node in nodes.items() if not isinstance(node, dict) and key not in chosen}
    yield in_columns(_rows(values, "", texts), NAMES, width)
    for key, node in nodes.items():
        if key in values or (not node and key not in chosen):
            continue
        named = f"{key}={chosen[key]}" if key in chosen else key
        title = about[key].title if key in about else texts.get(key, "")
        rows = _rows(node, f"{key}.", texts) if isinstance(node, dict) else ()
        yield [*wrapped_text(f"{named}: {title}" if title else named, width), *in_columns(rows, NAMES, width)]


def _rows(node: Mapping[str, Any], prefix: str, texts: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """A row for each value; one for an inner group only if something is said of it."""
    for one in settings_in(node, prefix, texts):
        value = one.value if isinstance(one.value, str) else to_hydra(one.value)
        if not one.is_group:
            yield f"{one.path}={value}", one.text
        elif one.text:
            yield one.path, one.text


@dataclass(frozen=True)
class Setting:
    """A setting of a configuration, or a group of them.

    Attributes:
        path: Dotted.
        value: As composed.
        text: Its description; empty: there is none.
        is_group: Whether its own settings follow.
    """

    path: str
    value: Any
    text: str
    is_group: bool = False


def settings_in(node: Mapping[str, Any], prefix: str, texts: Mapping[str, str]) -> Iterator[Setting]:
    """The settings of a part of a configuration, in order; a short group that is typed in one is one setting.

    Args:
        node: The part.
        prefix: Of the paths in it.
        texts: By path, what is said of it.
    """
    for key, value in node.items():
        path = f"{prefix}{key}"
        if key in HYDRA_KEYS:
            continue
        is_group = isinstance(value, dict) and bool(value) and not _is_written_in_one(path, value, texts)
        yield Setting(path, value, texts.get(path, ""), is_group)
        if is_group:
            yield from settings_in(value, f"{path}.", texts)


def _is_written_in_one(path: str, value: Mapping[str, Any], texts: Mapping[str, str]) -> bool:
    """Whether a group is shown as `{low:0.9,high:0.999}`: a short one that nothing is said of inside."""
    is_flat = not any(isinstance(inner, dict) for inner in value.values()) and "_target_" not in value
    return is_flat and "." in path and not any(f"{path}.{key}" in texts for key in value)
