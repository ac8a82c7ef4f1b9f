"""Interactions of pairs of parameters."""

from dataclasses import dataclass
from typing import ClassVar, Final

from tuner.results.records import Fact


@dataclass(frozen=True)
class Interactions:
    """Interactions of pairs of parameters.

    Attributes:
        pairs: configuration path, configuration path, and the share of the variance of trials' ranks that the two make
            beyond what each of them does alone; the largest first.
        chance: the share that the largest of all pairs reaches by chance alone in one of twenty studies.
    """

    MIN_TRIALS: ClassVar = 30
    """With fewer trials only interactions stronger than any main effect would be found."""
    LEAST_SHARE: ClassVar = 0.05
    """Less is not worth a thought, however sure it is."""

    pairs: tuple[tuple[str, str, float], ...]
    chance: float

    @property
    def found(self) -> tuple[tuple[str, str, float], ...]:
        """The pairs above chance that are of weight."""
        return tuple(pair for pair in self.pairs if pair[2] > max(self.chance, self.LEAST_SHARE))


INTERACTIONS: Final = Fact[Interactions | None]("interactions", None, Interactions, stage=None)
"""None where they were not worked out."""
