"""Contributions of a feature to the configurations of commands."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from tuner.checking.schema import Schema
from tuner.checking.section_types import StudyConfig
from tuner.features import nothing, parts


def _same(overrides: Sequence[str], name: str = "") -> Sequence[str]:
    del name
    return overrides


@dataclass(frozen=True)
class InChecking:
    """Contributions of a feature to the configurations of commands.

    Attributes:
        schemas: Of commands of its own, by primary config.
        trained: Of commands of its own that train as configured: by primary config, the dataclass of the plain values.
        absent: The advice for a key in one of these groups where that is off, by group.
        named: The overrides of any command, with the name of a file of settings in place of its short form.
        meant: The overrides of `tuner tune`, with short forms written in full.
        again: The opposite: what to type again.
        within: The overrides with which the part of a run of that name could be run alone.
        one_only: Refuses what only `tuner tune` takes, given what was typed and for which command.
        typed: Refuses what was typed for `tuner tune` and has no meaning with these settings.
        trainer: Overrides for a class of another library given in Python; nothing: the class is unknown.
        sections: Settings of `tuner tune`, which may be left out: by key, the dataclass of a group.
    """

    schemas: Mapping[str, Schema] = field(default_factory=dict)
    sections: Mapping[str, type] = field(default_factory=dict)
    trained: Mapping[str, type] = field(default_factory=dict)
    absent: Mapping[str, str] = field(default_factory=dict)
    named: Callable[[Sequence[str]], Sequence[str]] = _same
    meant: Callable[[Sequence[str]], Sequence[str]] = _same
    again: Callable[[Sequence[str]], Sequence[str]] = _same
    within: Callable[[Sequence[str], str], Sequence[str]] = _same
    trainer: Callable[[object], Sequence[str]] = nothing
    one_only: Callable[[Sequence[str], str], object] = nothing
    typed: Callable[[StudyConfig, Sequence[str]], object] = nothing


def named(overrides: Sequence[str]) -> list[str]:
    """The overrides of any command, with the names of files of settings in place of their short forms."""
    for part in parts(InChecking):
        overrides = part.named(overrides)
    return list(overrides)


def meant(overrides: Sequence[str]) -> list[str]:
    """The overrides of `tuner tune`, with short forms written in full."""
    overrides = named(overrides)
    for part in parts(InChecking):
        overrides = part.meant(overrides)
    return list(overrides)


def typed_again(overrides: Sequence[str]) -> list[str]:
    """The opposite of `meant`: what to type again."""
    for part in parts(InChecking):
        overrides = part.again(overrides)
    return list(overrides)


def typed_within(overrides: Sequence[str], name: str) -> list[str]:
    """The overrides with which one part of a run could be run alone; without a name, all overrides."""
    for part in parts(InChecking) if name else ():
        overrides = part.within(overrides, name)
    return list(overrides)
