"""From observations to the agent's answers, whatever lies between: normalisation, several agents."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

import numpy as np

from note_rl.environments.normalise import ObservationNormaliser
from note_rl.types import Array, FloatArray

Act = Callable[[Array], FloatArray]


class ActingLearner(Protocol):
    """The part of a `Learner` that acting needs."""

    def act(self, obs: Array) -> FloatArray:
        """Answers [E, ...] of the agent to observations [E, *obs]."""

    def act_one(self, obs: Array, agent_index: int) -> FloatArray:
        """Answers [E, ...] of one agent among several."""


SomeLearner = TypeVar("SomeLearner", bound=ActingLearner)


@dataclass(frozen=True)
class PolicyRunner(Generic[SomeLearner]):
    """Answers [E, ...] to observations [E, *obs] as the environments show them.

    With several agents these are [E, n, ...] and [E, n, *obs], and each agent is asked on its own.
    """

    learner: SomeLearner
    normaliser: ObservationNormaliser
    multi_agent: bool = False

    def __call__(self, obs: Array) -> FloatArray:
        """The answers."""
        seen = self.normaliser(obs)
        if not self.multi_agent:
            return self.learner.act(seen)
        return np.stack([self.learner.act_one(seen[:, i], i) for i in range(seen.shape[1])], axis=1)
