"""How a population is configured, and what is refused with it."""

from collections.abc import Sequence
from dataclasses import dataclass

from tuner.checking.features import InChecking
from tuner.errors import UserError
from tuner.features.population.evolution import Evolution
from tuner.results.protocol import StudySettings


@dataclass(frozen=True)
class EvolutionConfig:
    """How a population evolves; ranges are those of `Evolution`."""

    generations: int = Evolution.generations
    share: float = Evolution.share
    frequencies: Sequence[int] = Evolution.frequencies
    resampled: float = Evolution.resampled
    explore: str = Evolution.explore


def _typed(settings: StudySettings, overrides: Sequence[str]) -> None:
    """Refuses what a population does not ask."""
    for part in ("sampler", "pruner") if isinstance(settings.search, Evolution) else ():
        typed = [one for one in overrides if one.partition("=")[0].partition(".")[0] == part]
        if typed:
            raise UserError(
                f"{typed[0]} has no meaning with study=pbt, which draws its members at random and ends none of them "
                "early; leave it out"
            )


PART = InChecking(
    sections={"study.evolution": EvolutionConfig},
    absent={"study.evolution": "it is of a population; choose study=pbt as well"},
    typed=_typed,
)
