"""Notes of a learner on a loss while it is traced, without TensorFlow's part, which takes a second: it is called."""

from collections.abc import Callable
from typing import Any

import numpy as np

from note_rl.learners.base import parameter_groups
from note_rl.learners.keras.trace_constants import Constants
from tests.note_rl.samples import sample


def noted(agent: Any) -> Constants:
    """The constants of a trace of the agent's loss (NotTraceableError: it may not be traced)."""
    batch = sample(1, 4)
    columns = [getattr(batch, name)[0] for name in ("obs", "action", "next_obs", "reward", "terminated")]
    parameters = [parameter for group in parameter_groups(agent.param) for parameter in group]
    constants = Constants(agent, parameters=parameters)
    constants.traced(lambda: np.asarray(agent(*columns)))
    return constants


def assert_followed(
    agent: Any, change: Callable[[Any], object], nothing: Callable[[Any], object] | None = None
) -> None:
    """A change is noticed, once; another, that the loss does not read, is not."""
    constants = noted(agent)
    if nothing is not None:
        nothing(agent)
    assert constants.changed() == []
    change(agent)
    assert constants.changed() != []
    assert noted(agent).changed() == []
