"""What a feature adds to the configurations of commands."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from tuner.checking.schema import Schema
from tuner.features import nothing
from tuner.results.protocol import StudySettings


@dataclass(frozen=True)
class InChecking:
    """What a feature adds to the configurations of commands.

    Attributes:
        schemas: Of commands of its own, by primary config.
        typed: Refuses what was typed for `tuner tune` and has no meaning with these settings.
        sections: Settings of `tuner tune`, which may be left out: by key, the dataclass of a group.
    """

    schemas: Mapping[str, Schema] = field(default_factory=dict)
    sections: Mapping[str, type] = field(default_factory=dict)
    typed: Callable[[StudySettings, Sequence[str]], object] = nothing
