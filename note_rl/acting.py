"""From observations to the agent's answers, whatever lies between: normalisation, several agents."""

from collections.abc import Callable

import numpy as np

from note_rl.learners.base import Learner
from note_rl.normalise import ObservationNormaliser
from note_rl.types import Array, FloatArray

Act = Callable[[Array], FloatArray]


def acting(learner: Learner, normaliser: ObservationNormaliser, multi_agent: bool) -> Act:
    """Answers [E, ...] to observations [E, *obs] as the environments show them.

    With several agents these are [E, n, ...] and [E, n, *obs], and each agent is asked on its own.
    """
    ask = (lambda obs: _each(learner, obs)) if multi_agent else learner.act
    return lambda obs: ask(normaliser(obs))


def _each(learner: Learner, obs: Array) -> FloatArray:
    return np.stack([learner.act_one(obs[:, index], index) for index in range(obs.shape[1])], axis=1)
