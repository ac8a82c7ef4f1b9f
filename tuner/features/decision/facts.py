"""What the model knows of the configurations that it chose among."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, Final

from tuner.config.kinds import conform_all
from tuner.results.records import Fact


@dataclass(frozen=True)
class Believed:
    """The true score of a configuration as far as all runs tell: its mean over all seeds there are.

    Attributes:
        label: Of the configuration.
        mean: Of the posterior.
        low: Lower end of its 95 % interval.
        high: Upper end.
        num_runs: Runs of this configuration, its screening run included.
    """

    label: str
    mean: float
    low: float
    high: float
    num_runs: int


_BELIEVED = {"label": "str", **dict.fromkeys(("mean", "low", "high"), "int | float"), "num_runs": "int"}


def _read(kept: Sequence[dict[str, Any]]) -> tuple[Believed, ...]:
    return tuple(Believed(**{one.name: entry[one.name] for one in fields(Believed)}) for entry in kept)


def _check(kept: Sequence[dict[str, Any]]) -> None:
    for entry in kept:
        conform_all(entry, _BELIEVED)


BELIEVED: Final = Fact[tuple[Believed, ...]](
    "posterior", default=(), read=_read, annotation="list[dict[str, Any]]", check=_check
)
"""Of the configurations that ran again behind screening, the winner first; nothing where no model decided."""

DECISION: Final = Fact[str]("decision", default="", read=str, annotation="str")
"""What chose the winner, as it is typed; empty: the scores on the seeds of confirmation."""
