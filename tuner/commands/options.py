"""`tuner options AGENT`: the settings of an agent, with default, range and how it is searched; and of a group."""

import json
import re
import sys
from ast import literal_eval
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final, Literal

from omegaconf import DictConfig
from rich.text import Text

from note_rl.settings.settings_table import ALL
from note_rl.support.setting_fields import Field
from tuner.commands.group_options import choices_in, group_json, group_names, group_text
from tuner.commands.help_page import NAMES, chosen_in, settings_in, texts_of
from tuner.commands.preflight import compose_or_explain
from tuner.config.composition import conf_folder, config_loader
from tuner.config.installed_groups import installed_groups
from tuner.config.overrides import to_hydra
from tuner.config.paths import targets_in
from tuner.config.setting_declarations import declared_in
from tuner.errors import UserError
from tuner.results.number_format import join_words
from tuner.runs.config_checks import resolve
from tuner.study.space.leaves import leaves_of
from tuner.study.space.parameter_text import describe_values
from tuner.study.space.space import Space
from tuner.support.console import PlainConsole
from tuner.support.help_columns import in_columns, width_of
from tuner.support.names import did_you_mean
from tuner.trial.messages import JsonDict

_PARTS: Final = (
    *("agent", "optimizer", "network", "buffer", "policy", "noise", "schedule", "adaptive", "plateau"),
    *("training", "evaluation", "env", "wrapper", "wrapper_training", "collector", "strategy"),
)
_HEADS: Final = (
    ("KEY=DEFAULT", "what it is"),
    ("", "which way it works"),
    ("", "its range; the usual one; what tuner tune searches it over"),
)
_PIPED: Final = 100
"""Columns where there is no terminal."""

_CHOSEN: Final = ("PPO", "sequences", "PR", "HER")
"""Arguments of set() that a choice of buffer= stands for."""

_FIELDS: Final[Mapping[tuple[str, str], Field]] = {
    (one.part, one.name): one for one in ALL if one.manual_name not in _CHOSEN
}
"""By class and name."""

_OTHER_NAMES: Final = {"training.target_reward": "criterion", "training.reward_window": "trial_count"}
"""Settings that the training core calls otherwise."""


_OF_ALL: Final = ("ReplaySettings", "frame_stack")
"""A setting of every buffer that is typed once, of training, as the agent has it too."""

_FOUND: Final = (_OF_ALL[1], "state_dim", "hidden_size", "critic_hidden_size", "action_dim")
"""Arguments of agents that follow from other parts of the configuration."""


_OF_GROUPS: Final = ("group", "json")
"""Settings of the command that may be typed for a group."""


@dataclass(frozen=True)
class Option:
    """One thing that can be typed.

    Attributes:
        key: The word before the `=`; with a plus, where the configuration does not have it yet.
        default: Where nothing is typed; null of a class may stand for a value that its text names.
        range: The values that it takes, in words; empty: whatever its class takes.
        search: Its leaf in the search space, as typed there; None: `tuner tune` does not search it.
        searched: The same in words.
        text: Its description.
        effect: Which way it works; empty: not said.
        typical: The usual range; empty: not said.
    """

    key: str
    default: Any
    range: str
    search: Mapping[str, Any] | None
    searched: str
    text: str
    effect: str
    typical: str


def show(config: DictConfig, overrides: Sequence[str], config_dir: str | Path | None) -> int:
    """Prints a list in the form of the help page, or the same as JSON."""
    if config.group is not None:
        return _show_group(str(config.group), overrides, as_json=bool(config.json), config_dir=config_dir)
    loader = config_loader(config_dir)
    chosen = chosen_in(compose_or_explain(loader, "options", overrides))
    resolved = resolve(config)
    found = options_of(resolved, texts_of(chosen, config_dir, "options")[1])
    installed = installed_groups(conf_folder())
    if config.json:
        told = {"agent": chosen["agent"], "choices": chosen, "options": [asdict(one) for one in found]}
        told["installed"] = {one.package: list(one.choices) for one in installed}
        sys.stdout.write(json.dumps(told, indent=2) + "\n")
        return 0
    rows = [row for one in found for row in _rows(one)]
    rows += [(choice, f"of the package {one.package}") for one in installed for choice in one.choices]
    lines = in_columns([*_HEADS, *rows], NAMES, width_of(sys.stdout) or _PIPED)
    PlainConsole().print(Text("\n".join(lines)), soft_wrap=True)
    return 0


def _show_group(group: str, overrides: Sequence[str], *, as_json: bool, config_dir: str | Path | None) -> int:
    """Prints the choices of a group.

    Raises:
        UserError: There is no such group, or something is typed that would be ignored.
    """
    known = group_names(config_dir)
    if group not in known:
        raise UserError(f"group={group} is no group{did_you_mean(group, known)}; groups are {', '.join(sorted(known))}")
    if others := [word for word in overrides if word.lstrip("+").partition("=")[0] not in _OF_GROUPS]:
        raise UserError(f"group={group} prints files as they are, with or without {join_words(others)}: leave that out")
    choices = choices_in(group, config_dir)
    sys.stdout.write(group_json(group, choices) if as_json else group_text(group, choices, width_of(sys.stdout)))
    return 0


def _rows(one: Option) -> Iterator[tuple[str, str]]:
    """Rows of a setting: key and description; below that, the values it takes."""
    default = one.default if isinstance(one.default, str) else to_hydra(one.default)
    usual, searched = one.typical and f"usually {one.typical}", one.searched and f"searched over {one.searched}"
    values = "; ".join(filter(None, (one.range, usual, searched)))
    first, *more = [*filter(None, (one.text, one.effect, values))] or [""]
    yield f"{one.key}={default}", first
    yield from (("", text) for text in more)


def options_of(config: JsonDict, texts: Mapping[str, str]) -> list[Option]:
    """All options of a run, in the order of the parts that they belong to.

    Args:
        config: Composed and resolved, with a `space`.
        texts: By path, what is said of it.

    Raises:
        UserError: The search space does not fit.
    """
    leaves = dict(leaves_of(config["space"]))
    space = Space.from_config(config["space"], config).parameters if leaves else ()
    words = {one.path: describe_values(one.describe()) for one in space}
    found = [one for part in _PARTS if config.get(part) for one in _options_in(part, config[part], texts)]
    return [replace(one, search=leaves.get(one.key), searched=words.get(one.key, "")) for one in found]


def _options_in(part: str, node: JsonDict, texts: Mapping[str, str]) -> Iterator[Option]:
    """Settings of a part of the configuration, and behind them further arguments of its classes."""
    fields, more = _fields_in(part, node)
    for one in settings_in(node, f"{part}.", texts):
        known = fields.get(one.path)
        if not one.is_group:
            yield _option(one.path, one.value, known, one.text)
    for path, known in more.items():
        yield _option(f"+{path}", known.default, known)


def _option(key: str, default: Any, known: Field | None, text: str = "") -> Option:
    """An option, with what is known of it in the words of the command line; not yet how it is searched."""
    values = "true or false" if isinstance(default, bool) else _as_typed(known, "range")
    text, effect, typical = text or _as_typed(known, "text"), _as_typed(known, "effect"), _as_typed(known, "typical")
    return Option(key, default, values, None, "", text, effect, typical)


def _fields_in(part: str, node: JsonDict) -> tuple[dict[str, Field], dict[str, Field]]:
    """By path, what is known of the settings that a part has, and of plain values that it could have besides."""
    names = {key: _OTHER_NAMES.get(f"{part}.{key}", key) for key in node} if part in ("training", "env") else {}
    fields = {f"{part}.{key}": known for key, name in names.items() if (known := _FIELDS.get(("Settings", name)))}
    if _OF_ALL[1] in names:
        fields[f"{part}.{_OF_ALL[1]}"] = _FIELDS[_OF_ALL]
    more = {}
    for path, inner in targets_in(node, part):
        for key, known in declared_in(str(inner["_target_"])).items():
            if key in inner:
                fields[f"{path}.{key}"] = known
            elif known.kind is not None and key not in _FOUND:
                more[f"{path}.{key}"] = known
        name = str(inner["_target_"]).rpartition(".")[2]
        for (owner, key), known in _FIELDS.items():
            if owner == name and key in inner:
                fields[f"{path}.{key}"] = known
            elif owner == name and known.kind is not None and key != _OF_ALL[1]:
                more[f"{path}.{key}"] = known
    return fields, more


def _as_typed(known: Field | None, attribute: Literal["range", "text", "effect", "typical"]) -> str:
    """An attribute of a setting, in the words of the command line instead of Python's."""
    words = "" if known is None else getattr(known, attribute)
    return re.sub(r"\b(None|True|False)\b", lambda found: to_hydra(literal_eval(found[1])), words)
