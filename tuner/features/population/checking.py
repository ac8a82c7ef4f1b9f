"""How a population is configured, and what is refused with it."""

from collections.abc import Sequence

from tuner.checking.features import InChecking
from tuner.checking.section_types import StudyConfig
from tuner.errors import UserError
from tuner.features.population.evolution import Evolution


def _typed(settings: StudyConfig, overrides: Sequence[str]) -> None:
    """Refuses what a population does not ask."""
    for part in ("sampler", "pruner") if isinstance(settings.search, Evolution) else ():
        typed = [one for one in overrides if one.partition("=")[0].partition(".")[0] == part]
        if typed:
            raise UserError(
                f"{typed[0]} has no meaning with study=pbt, which draws its members at random and ends none of them "
                "early; leave it out"
            )


PART = InChecking(
    sections={"study.evolution": Evolution},
    absent={"study.evolution": "it is of a population; choose study=pbt as well"},
    typed=_typed,
)
