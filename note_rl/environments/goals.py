"""Environments with a goal: observations of three parts, seen as one vector that ends with the desired goal."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from note_rl.environments.observations import ObservationReader, check_keys, name_of
from note_rl.environments.wrappers import wrapper_of
from note_rl.types import Array, FloatArray

_PARTS = frozenset({"observation", "achieved_goal", "desired_goal"})


@dataclass(frozen=True)
class GoalLayout:
    """Where the goal stands in an observation, and what it is worth to achieve one.

    Attributes:
        obs_size: Length of the observation proper, which comes first.
        goal_size: Length of the desired goal, behind it.
        compute_reward: The environment's compute_reward(achieved, desired, info), where it has one.
        compute_terminated: Its compute_terminated, with the same arguments; None: achieving a goal ends nothing.
    """

    obs_size: int
    goal_size: int
    compute_reward: Callable[..., Any] | None
    compute_terminated: Callable[..., Any] | None = None


class GoalObservation(gymnasium.ObservationWrapper[FloatArray, Any, Any]):
    """Shows a dictionary of observation, achieved and desired goal as (observation, desired goal) in one vector.

    `achieved_goal` [G] holds what was achieved in the observation shown last.
    """

    def __init__(self, env: gymnasium.Env[Any, Any]) -> None:
        super().__init__(env)
        parts = goal_spaces(env.observation_space)
        assert parts is not None
        observation, goal = parts
        name = name_of(env)
        self._readers = {
            part: ObservationReader(name, box, f"[{part!r}]", among=np.dtype(np.float32))
            for part, box in (("observation", observation), ("desired_goal", goal), ("achieved_goal", goal))
        }
        self._num_looks = 2  # at the first reset and the first step
        low = np.concatenate([_flat(observation.low), _flat(goal.low)])
        high = np.concatenate([_flat(observation.high), _flat(goal.high)])
        self.observation_space = spaces.Box(low, high, dtype=np.float32)
        self.layout = GoalLayout(
            obs_size=_flat(observation.low).size,
            goal_size=_flat(goal.low).size,
            compute_reward=_outermost(env, "compute_reward"),
            compute_terminated=_outermost(env, "compute_terminated"),
        )
        self.achieved_goal: FloatArray = np.zeros(self.layout.goal_size, np.float32)

    def observation(self, observation: Any) -> FloatArray:
        """[obs_size + goal_size] float32."""
        if self._num_looks:
            self._num_looks -= 1
            check_keys(name_of(self), self.env.observation_space, observation, "reset() or step()")
        seen = {
            part: _flat(reader.one(observation[part], "reset() or step()")) for part, reader in self._readers.items()
        }
        self.achieved_goal = np.array(seen["achieved_goal"])
        return np.concatenate([seen["observation"], seen["desired_goal"]])


def _outermost(env: gymnasium.Env[Any, Any], name: str) -> Any:
    """A method of the environment, or of the outermost wrapper that has it; None: there is none."""
    return env.get_wrapper_attr(name) if env.has_wrapper_attr(name) else None


def goal_spaces(space: spaces.Space[Any]) -> tuple[spaces.Box, spaces.Box] | None:
    """The spaces of observation and goal where this is one of goal observations, else None."""
    if not isinstance(space, spaces.Dict) or set(space.spaces) != _PARTS:
        return None
    boxes = [_as_box(space.spaces[name]) for name in ("observation", "desired_goal", "achieved_goal")]
    if any(box is None for box in boxes) or boxes[1].shape != boxes[2].shape:  # type: ignore[union-attr]
        return None
    return boxes[0], boxes[1]  # type: ignore[return-value]


def _as_box(space: spaces.Space[Any]) -> spaces.Box | None:
    """Bits are numbers too."""
    if isinstance(space, spaces.MultiBinary):
        return spaces.Box(0.0, 1.0, space.shape, np.float32)
    return space if isinstance(space, spaces.Box) else None


def goal_wrapper(env: gymnasium.Env[Any, Any]) -> GoalObservation | None:
    """The `GoalObservation` among an environment's wrappers, if there is one."""
    return wrapper_of(env, GoalObservation)


def goal_layout(env: gymnasium.Env[Any, Any]) -> GoalLayout | None:
    """The layout of an environment that `environments.flat_observations` has made flat; None where there is no goal."""
    wrapper = goal_wrapper(env)
    return None if wrapper is None else wrapper.layout


def _flat(values: Array) -> FloatArray:
    return np.asarray(values, np.float32).reshape(-1)
