"""Facts of a study of several environments besides its runs."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from tuner.features.environments.scales import ScoreScale
from tuner.results.records import Fact


@dataclass(frozen=True)
class OwnWinner:
    """The winner of a study of one environment alone, with the same agent and as many steps.

    Attributes:
        study: Its name.
        scores: (seed, return by the metric) of each of its test runs.
    """

    study: str
    scores: tuple[tuple[int, float], ...] = ()


ENVIRONMENTS: Final = Fact[Mapping[str, ScoreScale]]("environments", {}, Mapping[str, ScoreScale], kept_as="scales")
"""The scale of each environment by name; none of a study of one."""
OWN_WINNERS: Final = Fact[Mapping[str, OwnWinner]]("own_winners", {}, Mapping[str, OwnWinner], stage=None)
"""By name of an environment, who won a study of it alone in the same storage."""
