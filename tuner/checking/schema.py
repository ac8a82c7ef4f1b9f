"""Classes that describe the configuration of a command."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from tuner.checking.section_types import StorageConfig, StudyPlace


@dataclass(frozen=True)
class Part:
    """One object, or any number of them by name.

    Attributes:
        optional: Whether there may be none.
        several: Whether it is a group of objects by name.
        filled_in: Arguments that only `tuner` knows.
        whole: Whether all its other arguments stand in the configuration, one of the user's own included.
    """

    optional: bool = False
    several: bool = False
    filled_in: tuple[str, ...] = ()
    whole: bool = False


@dataclass(frozen=True)
class Schema:
    """The configuration of one command.

    Attributes:
        values: A dataclass of the plain values at the top.
        sections: By key, the dataclass of a group of settings.
        parts: By key, what is built.
        free: Groups that somebody else reads, such as the search space.
        optional: Sections that may be missing.
    """

    values: type
    sections: Mapping[str, type] = field(default_factory=dict)
    parts: Mapping[str, Part] = field(default_factory=dict)
    free: tuple[str, ...] = ()
    optional: tuple[str, ...] = ("checkpoint",)


OF_A_STUDY: Mapping[str, type] = {"storage": StorageConfig, "study": StudyPlace}
"""Sections of a command that reads a study."""
