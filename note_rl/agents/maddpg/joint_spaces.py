"""The facts about its environment that a multi-agent algorithm needs to build networks."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from gymnasium import spaces

from note_rl.environments import as_factory
from note_rl.environments.multi_agent import joint_environments
from note_rl.errors import EnvironmentMismatchError
from note_rl.support.precision import are_finite
from note_rl.types import BoolArray, FloatArray


@dataclass(frozen=True)
class JointSpaces:
    """Of n agents, padded to the largest.

    Attributes:
        num_agents: n.
        obs_size: Numbers in one agent's observation, flattened.
        allowed: Which of the A actions each agent has, where actions are discrete; else None. [n, A]
        low, high: Bounds of the numbers in each agent's action, where actions are continuous; else None. [n, A]
    """

    num_agents: int
    obs_size: int
    allowed: BoolArray | None
    low: FloatArray | None
    high: FloatArray | None

    @property
    def action_size(self) -> int:
        """A: actions to choose from, or numbers in an action."""
        bounds = self.allowed if self.allowed is not None else self.low
        assert bounds is not None
        return int(bounds.shape[1])


def joint_spaces(env: Any, agent: str) -> JointSpaces:
    """Read from an environment of several agents, a list of them or a factory.

    Raises:
        EnvironmentMismatchError: Another kind of environment, or continuous actions without finite bounds.
    """
    probe = as_factory(joint_environments(env))()
    observation, action = probe.observation_space, probe.action_space
    num_agents, *shape = observation.shape or ()
    if isinstance(action, spaces.MultiDiscrete):
        allowed = np.arange(action.nvec.max()) < action.nvec[:, None]
        return JointSpaces(num_agents, math.prod(shape), allowed, None, None)
    assert isinstance(action, spaces.Box)
    if not are_finite(action.low, action.high):
        raise EnvironmentMismatchError(
            f"{agent} needs actions with finite bounds in single precision, but the environment takes {action}"
        )
    return JointSpaces(num_agents, math.prod(shape), None, action.low, action.high)
