"""Interface of the environments that collecting steps, however many there are and wherever they run."""

from collections.abc import Mapping
from typing import Any, Protocol

import gymnasium
import numpy as np
from gymnasium import spaces

from note_rl.environments.goals import GoalLayout
from note_rl.types import Array, BoolArray, FloatArray

Env = gymnasium.Env[Any, Any]
AnyVectorEnv = gymnasium.vector.VectorEnv[Any, Any, Any]


def as_the_space_has_it(action: Array, space: spaces.Space[Any]) -> Array:
    """Actions [E, ...] in the shape and type of the space, counted from where it begins, whole where its numbers are.

    Args:
        action: [E] int or [E, D] int, counted from 0, or [E, A] float.
        space: Of one action.
    """
    shaped = action.reshape(len(action), *(space.shape or ()))
    if isinstance(space, spaces.Box):
        return shaped if shaped.dtype == space.dtype else _of_type(shaped, space)
    start: Any = space.start if isinstance(space, spaces.Discrete | spaces.MultiDiscrete) else 0
    counted = shaped + start if np.any(start) else shaped
    return counted.astype(space.dtype, copy=False)


def _of_type(action: Array, space: spaces.Box) -> Array:
    """The nearest numbers that the type of the space has, within its bounds."""
    dtype = np.dtype(space.dtype)
    if dtype.kind == "f":
        return np.clip(action.astype(dtype), space.low, space.high)  # a bound in 32 bits may lie outside
    whole = np.rint(action.astype(np.float64))
    inside = (whole > space.low) & (whole < space.high)  # others may be too large for the type, as 2**64 is for uint64
    bound = np.where(whole >= space.high, space.high, space.low)
    return np.where(inside, np.where(inside, whole, 0.0).astype(dtype), bound)


class Environments(Protocol):
    """E environments stepped together, each of which goes on with a new episode when one has ended.

    Attributes:
        name: For messages.
        action_space, observation_space: Of one environment.
        obs: What each of them shows now. [E, *obs]
        achieved_goal: What was achieved in the next_obs of the last step, where tasks have a goal; else None. [E, G]
        alive: Which of them really took the last step; None: all. The others used it to begin an episode: what step()
            returned of them means nothing, must not be kept and does not count. [E]
        counted: What the last step adds to the returns of episodes, in double precision: what environments earned,
            before single precision and wrappers for training only. [E], or [E, n] of several agents
        goal_layout: Where the goal stands in an observation, where tasks have one.
    """

    name: str
    action_space: Any
    observation_space: Any
    obs: Array
    achieved_goal: FloatArray | None
    alive: BoolArray | None
    counted: FloatArray
    goal_layout: GoalLayout | None

    @property
    def action_mask(self) -> BoolArray | None:
        """Which actions are allowed in what they show now, [E, A]; None: they do not tell, and all are."""

    @property
    def next_action_mask(self) -> BoolArray | None:
        """The same for the next_obs of the last step."""

    def __len__(self) -> int:
        """E."""

    def step(self, action: Array) -> tuple[Array, FloatArray, Array, BoolArray, BoolArray]:
        """Takes one step in each environment.

        Args:
            action: [E] int or [E, D] int, counted from 0, or [E, A] float.

        Returns:
            obs [E, *obs] acted on, reward [E] float32, next_obs [E, *obs] (the true last observation where an episode
            ended), terminated [E], ended [E] (terminated or truncated); `obs` then shows where each goes on. Of
            several agents, reward and terminated are [E, n]. What has terminated has not ended where a game goes on
            after a lost life, see `training_only`.
        """

    def restart(self) -> None:
        """Begins new episodes everywhere."""

    def get_state(self) -> dict[str, Array]:
        """The state that set_state() takes."""

    def set_state(self, state: Mapping[str, Array]) -> bool:
        """Brings every environment back to where it was.

        Returns:
            False where that cannot be done: they then begin new episodes.

        Raises:
            CheckpointError: The state is of another number of environments.
        """

    def close(self) -> None:
        """Closes every environment."""
