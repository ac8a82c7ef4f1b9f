"""A training run that takes no time and whose best learning rate falls while it learns: schedules beat constants.

For trying out and testing what finds schedules (see `conf/agent/drifting.yaml`). What a run has
learned is its last report, so that a run goes on from the reports of another one as an agent does from a checkpoint.
"""

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from note_rl.support.setting_fields import setting
from note_rl.support.value_kinds import NOT_NEGATIVE, POSITIVE, Count
from tuner.config.section_base import Section
from tuner.errors import require
from tuner.trial.context import current_trial

BEST = 100.0
"""Score at the end of a run that has the best rate at every moment, without noise."""

_HIDES_NOTHING = -4.0
"""Logarithm of the rate at which all is shown that was learned."""


@dataclass(frozen=True)
class Drifting(Section, path="agent"):
    """A synthetic learner. Called with a seed it learns, from where an earlier attempt stopped.

    Each part of training adds to the score, the more the nearer the rate is to the best one of that moment. A high rate
    may hide some of what was learned, as noisy steps do near an optimum: lowering it shows more at once and learns less
    from then on, which is what greedy searches fall for.

    Attributes:
        learning_rate: Until the schedule says otherwise. The best one is 0.1 at the beginning.
        drift: Powers of ten by which it is lower at the end.
        width: Powers of ten off the best rate at which a part adds exp(-1/2) of what it could.
        noise: Standard deviation of what a part adds.
        hidden: So much less is shown for each power of ten by which the rate is above 1e-4.
        num_points: Reports of a run, and parts.
        total_steps: Environment steps that a run stands for: the unit of the schedule.
        schedule: By name (`learning_rate`), pairs (environment steps, value from then on).
    """

    learning_rate: float = setting(1e-2, POSITIVE)
    drift: float = 2.0
    width: float = setting(0.5, POSITIVE)
    noise: float = setting(1.0, NOT_NEGATIVE)
    hidden: float = setting(0.0, NOT_NEGATIVE)
    num_points: int = setting(16, Count())
    total_steps: int = 1600
    schedule: Mapping[str, Sequence[Sequence[float]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        super().__post_init__()
        unknown = [name for name in self.schedule if name != "learning_rate"]
        require(not unknown, "schedule", ", ".join(unknown), "of learning_rate, the only number that may change")

    def rate(self, step: float) -> float:
        """The learning rate after a number of environment steps."""
        begun = [value for since, value in self.schedule.get("learning_rate", ()) if since <= step]
        return begun[-1] if begun else self.learning_rate

    def gain(self, point: int) -> float:
        """Gain of the part before a report, without noise; points are counted from 0."""
        best = -1.0 - self.drift * (point + 0.5) / self.num_points
        off = (math.log10(self._rate_in(point)) - best) / self.width
        return BEST / self.num_points * math.exp(-0.5 * off**2)

    def _rate_in(self, point: int) -> float:
        return self.rate(point * self.total_steps / self.num_points)

    def _hides(self, point: int) -> float:
        """The amount by which the rate of the part before a report lowers the shown value."""
        return self.hidden * max(math.log10(self._rate_in(point)) - _HIDES_NOTHING, 0.0)

    def expected_score(self) -> float:
        """The score at the end without noise."""
        return sum(self.gain(point) for point in range(self.num_points)) - self._hides(self.num_points - 1)

    def __call__(self, seed: int) -> float:
        """Runs; without a run around it, returns the last score at once."""
        trial = current_trial()
        done = dict(trial.reported) if trial is not None else {}
        if trial is not None and done:
            trial.report(max(done), done[max(done)])  # the answer may have been one that no attempt heard
        learned = done[max(done)] + self._hides(len(done) - 1) if done else 0.0
        for point in range(len(done), self.num_points):
            learned += self.gain(point) + self.noise * random.Random(f"{seed} {point}").gauss(0.0, 1.0)
            if trial is not None:
                trial.report((point + 1) / self.num_points, learned - self._hides(point))
        return learned - self._hides(self.num_points - 1)
