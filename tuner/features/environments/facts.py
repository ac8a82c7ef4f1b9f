"""What a study of several environments knows besides its runs."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from tuner.config.kinds import conform_all
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


def _scales(kept: Mapping[str, Any]) -> dict[str, ScoreScale]:
    return {name: ScoreScale(**scale) for name, scale in kept.items()}


def _own_winners(kept: Mapping[str, Any]) -> dict[str, OwnWinner]:
    return {
        name: OwnWinner(one["study"], tuple((int(seed), float(score)) for seed, score in one["scores"]))
        for name, one in kept.items()
    }


def _check(kept: Mapping[str, Any]) -> None:
    for scale in kept.values():
        conform_all(scale, {"random": "float", "good": "float"})


ENVIRONMENTS: Final = Fact[Mapping[str, ScoreScale]](
    "environments", {}, _scales, "dict[str, dict[str, float]]", _check, kept_as="scales"
)
"""The scale of each environment by name; none of a study of one."""
OWN_WINNERS: Final = Fact[Mapping[str, OwnWinner]]("own_winners", {}, _own_winners, stage=None)
"""By name of an environment, who won a study of it alone in the same storage."""
