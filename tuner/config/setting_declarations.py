"""Declarations of the settings of agents, networks and optimizers: kind, text, effect, usual range.

The declarations of `note_rl` import no framework, and are imported. Those of a user's class are read from its source.
"""

import ast
import importlib
from collections.abc import Collection, Mapping
from contextlib import suppress
from itertools import takewhile
from typing import Any

from note_rl.agents.declaration import Given, settings_of
from note_rl.errors import SettingsError
from note_rl.support import value_kinds
from note_rl.support.setting_fields import Field, fields_of
from tuner.config.network_section import CRITIC, has_critic
from tuner.config.signatures import base_classes, class_attributes, taken_by
from tuner.config.sources import Module, imported, last_name, locate, names_in
from tuner.config.vocabulary import about_part
from tuner.errors import UserError

_AGENTS = "note_rl.agents."
_KINDS = f"{value_kinds.__name__}."


def declared_in(target: str) -> dict[str, Field]:
    """By name, what is declared of the arguments of a part of `note_rl`, or of a user's class that inherits one."""
    located = locate(target)
    if located is None:
        return {}
    settings = taken_by(*located)
    if settings is not None:
        return {one.name: one for one in fields_of(_class(settings))} if settings.startswith("note_rl.") else {}
    own: list[dict[str, Field]] = []
    for module, node in base_classes(*located):
        if _is_declaration(module):
            inherited = {one.name: one for one in settings_of(_class(f"{module.name}.{node.name}"))}
            return {name: one for declared in [inherited, *reversed(own)] for name, one in declared.items()}
        own.append(_written_in(module, node))
    return {}


def check_declared(config: Mapping[str, Any]) -> None:
    """Refuses values of an agent, its networks and the optimizer that are out of the range that is declared.

    Any other part of the user's own may mean anything by a name.

    Raises:
        UserError: The first one, or settings of the agent that contradict each other.
    """
    parts = {part: config[part] for part in ("agent", "network", "optimizer")}
    if has_critic(parts["network"]):
        parts[f"network.{CRITIC}"] = parts["network"][CRITIC]
    for path, node in parts.items():
        for name, known in declared_in(str(node.get("_target_"))).items():
            value = node.get(name)
            if known.kind is None or value is None or isinstance(value, Mapping):
                continue
            try:
                known.kind(name, value)
            except SettingsError as error:
                raise UserError(about_part(path, node, error)) from error
    _check_together(config["agent"])


def _check_together(agent: Mapping[str, Any]) -> None:
    """Refuses settings of an agent of `note_rl`, or of a class that inherits from one, that contradict each other.

    If the source of a class does not tell its defaults, that is left to the constructor.
    """
    located = locate(str(agent.get("_target_")))
    found = [] if located is None else base_classes(*located)
    own = list(takewhile(lambda one: not _is_declaration(one[0]), found))
    if len(own) == len(found):
        return
    module, node = found[len(own)]
    kind = _class(f"{module.name}.{node.name}")
    defaults = {one.name: one.default for one in settings_of(kind)}
    for _, one in reversed(own):
        written = _defaults_in(one, defaults)
        if written is None:
            return
        defaults |= written
    given = Given(**{name: agent.get(name, default) for name, default in defaults.items()})
    try:
        kind.check_together(given)
    except SettingsError as error:
        raise UserError(about_part("agent", agent, error)) from error


def _defaults_in(node: ast.ClassDef, inherited: Collection[str]) -> dict[str, Any] | None:
    """Other defaults that a class gives to settings that it inherits; None: they are worked out, or by a method."""
    found = {}
    if {"__init__", "check_together"} & class_attributes(node).keys():
        return None
    for statement in node.body:
        if isinstance(statement, ast.If | ast.Try | ast.With):
            return None
        if not isinstance(statement, ast.AnnAssign) or not isinstance(statement.target, ast.Name):
            continue
        name, value = statement.target.id, statement.value
        if isinstance(value, ast.Call) and last_name(value) == "setting":
            value = _arguments_of(value).get("default")
        if name in inherited and value is not None:
            try:
                found[name] = ast.literal_eval(value)
            except ValueError:
                return None
    return found


def _is_declaration(module: Module) -> bool:
    return module.name.startswith(_AGENTS) and module.name == module.package


def _class(path: str) -> Any:
    """The class of a declaration, from the module that defines it: one that imports it may import a framework."""
    located = locate(path)
    assert located is not None
    module, node = located
    assert isinstance(node, ast.ClassDef)
    return getattr(importlib.import_module(module.name), node.name)


def _written_in(module: Module, node: ast.ClassDef) -> dict[str, Field]:
    """Settings that the body of a class declares by `setting(...)`."""
    found = {}
    for statement in node.body:
        if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            value, name = statement.value, statement.target.id
            if isinstance(value, ast.Call) and last_name(value) == "setting":
                found[name] = _field(module, name, value)
    return found


def _field(module: Module, name: str, call: ast.Call) -> Field:
    given = _arguments_of(call)
    words = {key: str(_value(given.get(key)) or "") for key in ("text", "effect", "typical")}
    default, fixed = _value(given.get("default")), bool(_value(given.get("fixed")))
    return Field(name=name, default=default, kind=_kind(module, given.get("kind")), fixed=fixed, **words)


def _arguments_of(call: ast.Call) -> dict[str, ast.expr]:
    """Those of a call of `setting`."""
    by_place = dict(zip(("default", "kind"), call.args, strict=False))
    return {**by_place, **{str(one.arg): one.value for one in call.keywords}}


def _value(node: ast.expr | None) -> Any:
    """A plain value; None: there is none, or it is worked out."""
    with suppress(ValueError):
        return None if node is None else ast.literal_eval(node)
    return None


def _kind(module: Module, node: ast.expr | None) -> Any:
    """One of `note_rl.support.value_kinds`, as it stands there or made of plain values; None: another one."""
    if isinstance(node, ast.Call):
        kind = _kind(module, node.func)
        return kind and kind(*map(_value, node.args), **{str(one.arg): _value(one.value) for one in node.keywords})
    name = node.id if isinstance(node, ast.Name) else ""
    statement = names_in(module).get(name)
    path = imported(module, statement, name) if isinstance(statement, ast.ImportFrom) else ""
    return getattr(value_kinds, path.removeprefix(_KINDS), None) if path.startswith(_KINDS) else None
