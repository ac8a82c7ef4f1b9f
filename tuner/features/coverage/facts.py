"""The part of the search space that a study has searched, as facts about it."""

from dataclasses import dataclass
from typing import ClassVar, Final

from tuner.results.records import Fact


@dataclass(frozen=True)
class Reach:
    """How much of one parameter's range the search has looked at.

    The range is divided into `num_parts` equal parts on the scale that it is drawn on.

    Attributes:
        path: Configuration path.
        num_parts: Parts of the range.
        num_visited: Parts that hold a trial.
        num_late: Parts that hold one of the last half of the trials.
        expected_late: As many parts would hold one, on average, if that half had been drawn evenly.
        edge: The end of the range, "low" or "high", at which the winner lies together with most of the best trials;
            empty: at none, or at one beyond which there is nothing.
        widen: The override that searches beyond that edge; empty without an edge.
    """

    path: str
    num_parts: int
    num_visited: int
    num_late: int
    expected_late: float
    edge: str = ""
    widen: str = ""

    NARROW: ClassVar = 0.5
    """The last half is narrow where it reaches less than such a share of what even draws would."""

    @property
    def is_narrow(self) -> bool:
        """Whether the last half of the trials lies in a small part of the range."""
        return self.num_late < self.NARROW * self.expected_late


@dataclass(frozen=True)
class Coverage:
    """Where a search has looked.

    Attributes:
        num_late: Trials in the last half.
        reaches: Of each parameter with an order, by its path.
    """

    num_late: int
    reaches: tuple[Reach, ...]

    CORNER: ClassVar = 0.5
    """One corner: the last half of the trials is narrow in such a share of the parameters."""

    @property
    def edges(self) -> tuple[Reach, ...]:
        """The parameters in which the winner lies at an edge."""
        return tuple(reach for reach in self.reaches if reach.edge)

    @property
    def narrow(self) -> tuple[Reach, ...]:
        """The parameters of which the last half of the trials has seen little."""
        return tuple(reach for reach in self.reaches if reach.is_narrow)

    @property
    def is_corner(self) -> bool:
        """Whether the search has ended in one corner: narrow in two parameters at least, and in half of them."""
        return len(self.narrow) >= max(2, self.CORNER * len(self.reaches))


COVERAGE: Final = Fact[Coverage | None]("coverage", None, Coverage, stage=None)
"""None where too few trials have ended."""
