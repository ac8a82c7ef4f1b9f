"""What a feature adds to the configurations of commands."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from tuner.checking.schema import Schema


@dataclass(frozen=True)
class InChecking:
    """What a feature adds to the configurations of commands.

    Attributes:
        schemas: Of commands of its own, by primary config.
        sections: Settings of `tuner tune`, which may be left out: by key, the dataclass of a group.
    """

    schemas: Mapping[str, Schema] = field(default_factory=dict)
    sections: Mapping[str, type] = field(default_factory=dict)
