"""Checks a resolved configuration against the schema of its command: what is missing, unknown, or of another kind."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import MISSING, fields
from typing import Any

from note_rl.support.near_names import nearest
from tuner.checking.other_libraries import scheduled_here
from tuner.checking.schema import Part, Schema
from tuner.config.annotations import conform, shortened, written
from tuner.config.composition import HYDRA_KEYS, SECTIONS
from tuner.config.network_section import CRITIC, Networks
from tuner.config.paths import get_path, has_path, targets_in
from tuner.config.signatures import Signature, signature_of
from tuner.config.sources import OURS
from tuner.errors import UserError
from tuner.support.names import did_you_mean
from tuner.trial.messages import JsonDict

Choices = Callable[[str], Sequence[str]]
"""The choices there are of a group."""

Correction = tuple[str, object]
"""A path, and the value to be used in place of the one that stands there: 100000 for 1e5."""

_KNOWN = (*OURS, "optuna.")


def refuse_missing(keys: Collection[str], schema: Schema, command: str, choices: Choices) -> None:
    """Refuses a configuration without a section or a part that the schema asks for.

    Raises:
        UserError: Names the first one and what to type.
    """
    for name in (*schema.sections, *schema.parts, *schema.free):
        if "." not in name and name not in keys and not _may_lack(schema, name):
            raise UserError(f"there is no {name}, and {command} needs one{_remedy(name, choices)}")


def check_sections(resolved: JsonDict, schema: Schema) -> Iterator[Correction]:
    """Refuses sections and plain values of another kind than the schema says.

    Raises:
        UserError: The first one; says what it must be.
    """
    yield from check_section("", _values(resolved, schema), schema.values)
    for path, section in schema.sections.items():
        if has_path(resolved, path):
            node = get_path(resolved, path)
            if isinstance(node, Mapping):  # groups in it are compared by themselves
                node = {key: value for key, value in node.items() if f"{path}.{key}" not in schema.sections}
            yield from check_section(path, node, section)


def left_out(resolved: JsonDict, schema: Schema) -> Iterator[Correction]:
    """Keys deleted from the command's own values and sections, each with its default.

    Not of a run's sections: what is not in a run's configuration is for the training core to know.
    """
    own = {path: section for path, section in schema.sections.items() if path not in SECTIONS}
    for path, section in {"": schema.values, **own}.items():
        if not path or has_path(resolved, path):
            node: Any = get_path(resolved, path) if path else resolved
            for one in fields(section):
                default = one.default_factory() if one.default_factory is not MISSING else one.default
                if one.name not in node and default is not MISSING:
                    yield f"{path}.{one.name}" if path else one.name, default


def check_section(path: str, node: object, section: type) -> Iterator[Correction]:
    """Compares a group of settings with the dataclass that it is one of.

    Raises:
        UserError: It is no group, a setting is missing or unknown, or a value of another kind.
    """
    signature = signature_of(f"{section.__module__}.{section.__qualname__}")
    assert signature is not None
    yield from _check_arguments(path, node, signature, path, filled_in=())


def check_ranges_of(resolved: JsonDict, schema: Schema) -> None:
    """Lets each section refuse what is out of range. Kinds must have been checked.

    Raises:
        UserError: The first one.
    """
    schema.values(**_values(resolved, schema))
    for path, section in schema.sections.items():
        if has_path(resolved, path) and get_path(resolved, path) is not None:  # null: one that may be left out
            section(**get_path(resolved, path))  # type: ignore[arg-type]


def check_parts(resolved: JsonDict, schema: Schema, choices: Choices) -> Iterator[Correction]:
    """Refuses parts that cannot be built from their settings: no target, an unknown argument, a wrong kind.

    Raises:
        UserError: The first one.
    """
    for path, node in targets_in(resolved):
        target = node["_target_"]
        if not isinstance(target, str):
            raise UserError(f"{path}._target_={written(target)} must be the dotted path of a class or function")
        try:
            signature = signature_of(target)
        except UserError as error:
            raise UserError(f"{path}._target_: {shortened(str(error))}") from error
        if signature is not None:
            own = Networks.from_section(node).network if path == "network" else node
            yield from _check_arguments(path, own, signature, target, _filled_in(path, schema))
            if not target.startswith(_KNOWN) and _is_whole(path, schema):
                _require_all(f"{path}.", node, signature, target, _filled_in(path, schema))
    for name, part in schema.parts.items():
        if name in resolved:
            _check_shape(name, resolved[name], part, choices)


def _values(resolved: JsonDict, schema: Schema) -> JsonDict:
    return {part.name: resolved[part.name] for part in fields(schema.values) if part.name in resolved}


def _may_lack(schema: Schema, name: str) -> bool:
    part = schema.parts.get(name, Part())
    return part.optional or part.several or name in schema.optional


def _remedy(name: str, choices: Choices) -> str:
    """The hint on the choices that exist; empty for a config that was read from a file, which has no choices."""
    return f": {_choose(name, choices(name))}" if choices("agent") else ""


def _choose(name: str, options: Sequence[str]) -> str:
    return f"choose {name}={_listed(sorted(options))}" if options else f"leave ~{name} out"


def _listed(options: Sequence[str]) -> str:
    """The choices in a row, or the first few of many."""
    listed = ", ".join(options[:_MOST_LISTED])
    return f"{listed} or another" if len(options) > _MOST_LISTED else listed


_MOST_LISTED = 12


_MADE_LATER = ("agent", "network", "optimizer", "wrapper", "wrapper_training", "sampler", "executor", "progress")
"""Parts that are finished when more is known, so that `_partial_` may be said of them."""


def _check_shape(name: str, node: object, part: Part, choices: Choices) -> None:
    """Every part that is built must say of what, and leave to `tuner` what only that knows."""
    if node in (None, {}, []) and (part.optional or part.several):
        return
    if not isinstance(node, Mapping):
        raise UserError(f"{name}={written(node)} is not possible: {_choose(name, choices(name))}")
    for entry, inner in node.items() if part.several else [("", node)]:
        if isinstance(inner, Mapping) and "_target_" in inner:
            if inner.get("_partial_") and name not in _MADE_LATER:
                where = f"{name}.{entry}" if entry else name
                raise UserError(
                    f"{where}._partial_=true is not possible: {where} is built at once; leave _partial_ out"
                )
            continue
        if part.several:
            raise UserError(
                f"{name}.{entry} has no _target_: an entry of {name} is "
                f"'+{name}.{entry}={{_target_: package.Class, ...arguments}}'"
            )
        if isinstance(node.get(name), Mapping) and "_target_" in node[name]:
            raise UserError(
                f"{name}.{name} is one level too deep: a file that says {name}: must begin with # @package _global_"
            )
        raise UserError(f"{name} has no _target_, which says what to build it with: {_choose(name, choices(name))}")
    if not part.several:
        _refuse_filled_in(name, node, part)


def _refuse_filled_in(name: str, node: Mapping[str, Any], part: Part) -> None:
    critic = Networks.from_section(node).critic if name == "network" else None
    for path, inner in ((name, node), (f"{name}.{CRITIC}", critic or {})):
        for key in part.filled_in:
            if key in inner:
                raise UserError(f"{path}.{key} is filled in when the run is built: leave it out")


def _filled_in(path: str, schema: Schema) -> tuple[str, ...]:
    name, _, rest = ("network" if path == f"network.{CRITIC}" else path).partition(".")
    part = schema.parts.get(name, Part())
    return part.filled_in if part.several == bool(rest) and rest.count(".") == 0 else ()


def _is_whole(path: str, schema: Schema) -> bool:
    name, _, rest = path.partition(".")
    part = schema.parts.get(name, Part())
    return part.whole and part.several == bool(rest) and "." not in rest


def _check_arguments(
    path: str, node: object, signature: Signature, what: str, filled_in: Sequence[str]
) -> Iterator[Correction]:
    """Refuses arguments that a target does not take, and lacking ones; yields what is to be used in place of others."""
    if not isinstance(node, Mapping):
        raise UserError(f"{path}={written(node)} must be a group of settings")
    names = signature.parameters
    before = f"{path}." if path else ""
    for key, value in node.items():
        if key in HYDRA_KEYS:
            _refuse_in_settings(before, key, what, path)
            continue
        if key not in names:
            if signature.is_open:
                continue
            offered = [f"{before}{name}" for name in names if name not in filled_in]
            owner = f"{what} takes no {key}" if what != path else f"{path} has no {key}"
            hint = did_you_mean(f"{before}{key}", offered)
            is_in_a_list = any(map(str.isdecimal, path.split(".")))
            if what != path and not is_in_a_list and not nearest(f"{before}{key}", offered):
                # an agent's file may set it for another choice
                hint += f"; to do without, type ~{before}{key}, or leave it out if you have typed it"
            raise UserError(f"unknown key {before}{key}: {owner}{hint}")
        _refuse_scheduled(f"{before}{key}", value)
        meant = conform(f"{before}{key}", value, names[key].annotation, finite=_is_ours(what, path))
        if meant is not value:
            yield f"{before}{key}", meant
    if what == path or what.startswith(_KNOWN):
        _require_all(before, node, signature, what, filled_in)


def _refuse_in_settings(before: str, key: str, what: str, path: str) -> None:
    """`_target_` and its like say how something is built; a section of settings is none."""
    if what == path:
        raise UserError(f"{before}{key} is not possible: {path} holds settings, and nothing is built from them by name")


def _refuse_scheduled(path: str, value: object) -> None:
    typed_here = scheduled_here(path, value) if isinstance(value, str) else ""
    if typed_here:
        raise UserError(f"{path}={value} is a number that falls to 0: here that is typed {typed_here}")


def _require_all(
    before: str, node: Mapping[str, Any], signature: Signature, what: str, filled_in: Sequence[str]
) -> None:
    """Refuses a group in which a setting is missing; a partial object may be given it later."""
    if node.get("_partial_") or node.get("_args_"):
        return
    for name, parameter in signature.parameters.items():
        if parameter.required and name not in node and name not in filled_in:
            needed = f", and {what.rpartition('.')[2]} needs it" if before else ""
            added = "" if what.startswith(_KNOWN) or not before else "+"
            raise UserError(f"{before}{name} is missing{needed}: type {added}{before}{name}=...")


def _is_ours(what: str, path: str) -> bool:
    return what == path or what.startswith(OURS)
