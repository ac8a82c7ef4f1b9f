"""Returns of several environments on one scale: 0 is a random policy, 1 a good one.

The two returns of an environment are fixed before a study begins. A scale by ranks or by the best score seen (as the
distribution of all scores in Patterson et al. 2024, "The Cross-environment Hyperparameter Setting Benchmark",
https://arxiv.org/abs/2407.18840) is known only when all runs are: it would change what a sampler was given before.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from tuner.errors import UserError


@dataclass(frozen=True)
class ScoreScale:
    """The scale of one environment. It is linear: scores may lie below 0 and above 1.

    Attributes:
        random: Mean return of uniformly random actions.
        good: Mean return of a policy known to be good.
    """

    random: float
    good: float

    def score(self, value: float) -> float:
        """A return as a score."""
        return (value - self.random) / (self.good - self.random)

    def value(self, score: float) -> float:
        """The return that has this score."""
        return self.random + score * (self.good - self.random)

    def curve(self, points: Iterable[tuple[float, float]]) -> tuple[tuple[float, float], ...]:
        """A learning curve of returns as one of scores."""
        return tuple((step, self.score(value)) for step, value in points)


def check_scale(name: str, scale: ScoreScale) -> None:
    """Refuses a scale on which better returns would not have higher scores.

    Raises:
        UserError: Names the environment and what to write.
    """
    if not scale.good > scale.random:
        raise UserError(
            f"env={name}: its good return, {scale.good:g}, must be above that of a random policy, {scale.random:g}; "
            "both stand in its file: reference: {random: ..., good: ...}"
        )
