"""What a feature adds to the results of a study."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import Enum, Flag, auto
from typing import Any

from tuner.features import nothing, parts
from tuner.results.records import Fact, RunRecord, Scalar, StudySummary


class ShownIn(Flag):
    """The tables of runs."""

    FILE = auto()
    """trials.csv, and `rows` in Python: everything."""
    PAGE = auto()
    TRACKER = auto()
    """What Weights & Biases shows of a study."""


class Cells(Enum):
    """What the cells of a column hold, for those who draw them."""

    PLAIN = auto()
    """A score, or a text."""
    PARAMETER = auto()
    TRIAL = auto()
    """The number of a run."""
    OUTCOME = auto()
    DURATION = auto()


@dataclass(frozen=True)
class RunColumn:
    """A column of the tables of runs.

    Attributes:
        name: In trials.csv.
        value: What it holds of a run; None: nothing.
        shown_in: Those that have it.
        title: Its name where people read it; empty: the same.
        cells: What they hold.
    """

    name: str
    value: Callable[[RunRecord], Scalar]
    shown_in: ShownIn = ~ShownIn(0)
    title: str = ""
    cells: Cells = Cells.PLAIN

    @property
    def heading(self) -> str:
        """What stands above it where people read it."""
        return self.title or self.name


@dataclass(frozen=True)
class InResults:
    """What a feature adds to the results of a study.

    Attributes:
        facts: What a study knows by it.
        stages: Of runs behind the study, which are no part of its result.
        columns: Of the tables of runs, behind the score.
        sentences: Behind those of the verdict on the winner.
    """

    facts: tuple[Fact[Any], ...] = ()
    stages: tuple[str, ...] = ()
    columns: Callable[[StudySummary], Iterable[RunColumn]] = nothing
    sentences: Callable[[StudySummary], Iterable[str]] = nothing


def all_facts() -> Iterator[Fact[Any]]:
    """The facts of all features."""
    return (fact for part in parts(InResults) for fact in part.facts)


def stages_behind() -> tuple[str, ...]:
    """The stages behind a study, of all features."""
    return tuple(stage for part in parts(InResults) for stage in part.stages)
