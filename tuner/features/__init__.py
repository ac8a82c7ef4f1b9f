"""The features of a study: each is a package that holds all of it, and general code names none.

What a feature adds to a room stands in its module of the room's name, as `PART`: `ablation/reporting.py` holds an
`InReporting`, which `tuner/reporting/features.py` describes. Such a module imports what its room may import. All of
them may be missing.
"""

from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final, TypeVar, cast

FEATURES: Final = (
    "ablation",
    "coverage",
    "interactions",
    "constraints",
    "objectives",
    "environments",
    "population",
    "decision",
    "benchmark",
    "budgets",
    "sb3",
    "imports",
    "sharing",
    "artifacts",
    "edited_code",
)
"""A line for each, in the order in which they are shown."""

_Part = TypeVar("_Part")


def parts(kind: type[_Part]) -> tuple[_Part, ...]:
    """Contributions of the features to a room.

    Args:
        kind: The class of their `PART`; the room is that in which it is defined.
    """
    return cast("tuple[_Part, ...]", _parts_of(kind.__module__.split(".")[1]))


@cache  # each trial asks several times
def _parts_of(room: str) -> tuple[Any, ...]:
    names = (f"{__name__}.{feature}.{room}" for feature in FEATURES)
    return tuple(import_module(name).PART for name in names if find_spec(name) is not None)


def nothing(*given: object) -> Any:
    """The empty contribution of a feature: neither items nor entries."""
    del given
    return {}
