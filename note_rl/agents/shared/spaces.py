"""The facts about its environment that an agent needs to build networks."""

import logging
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from gymnasium import spaces

from note_rl.environments import Env, EnvLike, as_factory, bounded_actions, flat_observations, num_discrete_actions
from note_rl.environments.frames import FEWEST_PIXELS, channels_first, stacked_shape
from note_rl.environments.observation_packing import observed_shape
from note_rl.errors import EnvironmentMismatchError, say_once
from note_rl.errors.wording import choice
from note_rl.support.precision import in_single_precision
from note_rl.support.value_kinds import Count
from note_rl.types import FloatArray

_log = logging.getLogger(__name__)

_FEWEST_CELLS = 3  # a side, for the convolution of network=minatar
_OF_CELLS = "hidden_sizes, or layered_network with small filters"
_CNN = "give the agent network=CNN (note_rl.agents.*.networks.CNN)"


@dataclass(frozen=True)
class DiscreteSpaces:
    """Shape of an observation and number of actions."""

    obs_shape: tuple[int, ...]
    num_actions: int


@dataclass(frozen=True)
class FactoredSpaces:
    """Shape of an observation and, of actions that are several choices at once, how many there are to each: [D]."""

    obs_shape: tuple[int, ...]
    sizes: tuple[int, ...]


@dataclass(frozen=True)
class BinarySpaces:
    """Shape of an observation and, of actions that are several numbers 0 or 1, how many: D."""

    obs_shape: tuple[int, ...]
    num_switches: int


@dataclass(frozen=True)
class ContinuousSpaces:
    """Shape of an observation and bounds of the action's numbers, [A] each; infinite ones are possible."""

    obs_shape: tuple[int, ...]
    low: FloatArray
    high: FloatArray

    @property
    def action_size(self) -> int:
        """A."""
        return len(self.low)

    @property
    def centre(self) -> FloatArray:
        """Middle of the range of each number, [A]."""
        return 0.5 * (self.low + self.high)

    @property
    def scale(self) -> FloatArray:
        """Half the range of each number, [A]."""
        return 0.5 * (self.high - self.low)

    @property
    def unit(self) -> FloatArray:
        """The unit of each number of the action, [A]: half its range, or 1 where only one value is allowed."""
        return np.where(self.scale > 0.0, self.scale, np.float32(1.0))


PolicySpaces = DiscreteSpaces | FactoredSpaces | BinarySpaces | ContinuousSpaces


def num_outputs(spaces: PolicySpaces) -> int:
    """Of the network of a policy: one per action, one per action of each choice, or one per number."""
    if isinstance(spaces, DiscreteSpaces):
        return spaces.num_actions
    if isinstance(spaces, FactoredSpaces):
        return sum(spaces.sizes)
    return spaces.num_switches if isinstance(spaces, BinarySpaces) else spaces.action_size


def discrete_spaces(
    env: EnvLike, agent: str, state_dim: int | None, action_dim: int | None, frame_stack: int = 1
) -> DiscreteSpaces:
    """Taken from the arguments where both are given, else read from the environment.

    Args:
        env: Where the agent acts.
        agent: Its name, for messages.
        state_dim: Length of an observation, or None.
        action_dim: Number of actions, or None.
        frame_stack: Frames that are shown to the agent together.

    Raises:
        EnvironmentMismatchError: The environment cannot be made or its actions are not discrete.
    """
    if state_dim is not None and action_dim is not None:
        state_dim, action_dim = Count()("state_dim", state_dim), Count()("action_dim", action_dim)
        return DiscreteSpaces(stacked_shape((state_dim,), frame_stack), action_dim)
    probe = flat_observations(as_factory(env)())
    try:
        return DiscreteSpaces(stacked_shape(_obs_shape(probe), frame_stack), num_discrete_actions(probe, agent))
    finally:
        probe.close()


def continuous_spaces(env: EnvLike, agent: str, frame_stack: int = 1) -> ContinuousSpaces:
    """Read from the environment; see `discrete_spaces` for the arguments.

    Raises:
        EnvironmentMismatchError: The environment cannot be made, or its actions are no numbers within finite bounds.
    """
    probe = flat_observations(as_factory(env)())
    try:
        return _box_spaces(probe, bounded_actions(probe, agent), frame_stack)
    finally:
        probe.close()


def any_spaces(
    env: EnvLike, agent: str, state_dim: int | None, action_dim: int | None, frame_stack: int = 1
) -> PolicySpaces:
    """For agents whose policies choose one of several actions, several at once or vectors of numbers.

    Which of them it is, the environment says.

    See `discrete_spaces` for the arguments.

    Raises:
        EnvironmentMismatchError: The environment cannot be made, or its actions are of another kind.
    """
    if state_dim is not None and action_dim is not None:
        state_dim, action_dim = Count()("state_dim", state_dim), Count()("action_dim", action_dim)
        return DiscreteSpaces(stacked_shape((state_dim,), frame_stack), action_dim)
    probe = flat_observations(as_factory(env)())
    try:
        taken = probe.action_space
        if isinstance(taken, spaces.Box):
            return _box_spaces(probe, taken, frame_stack)
        if isinstance(taken, spaces.MultiDiscrete):
            return FactoredSpaces(
                stacked_shape(_obs_shape(probe), frame_stack), tuple(map(int, taken.nvec.reshape(-1)))
            )
        if isinstance(taken, spaces.MultiBinary):
            return BinarySpaces(stacked_shape(_obs_shape(probe), frame_stack), math.prod(taken.shape))
        return DiscreteSpaces(stacked_shape(_obs_shape(probe), frame_stack), num_discrete_actions(probe, agent))
    finally:
        probe.close()


def looks_like_an_image(obs_shape: tuple[int, ...], dtype: Any = None) -> bool:
    """Whether it is [H, W, C], [C, H, W], or bytes [H, W], of 36 pixels or more a side.

    Args:
        obs_shape: Of one observation.
        dtype: Of its numbers; None: not known.
    """
    is_image = len(obs_shape) == 3 or (len(obs_shape) == 2 and dtype == np.uint8)
    return is_image and sorted(obs_shape)[-2] >= FEWEST_PIXELS


def say_if_pixels(input_shape: tuple[int, ...]) -> None:
    """Says once that a multilayer perceptron was made for images."""
    if looks_like_an_image(input_shape):
        say_once(
            _log,
            f"a multilayer perceptron is made for images {list(input_shape)}: every pixel is an input of its own, "
            f"{math.prod(input_shape):,} in all, and nothing is known of neighbours; {{}}, which has convolutions",
            choice(_CNN),
        )


def image_shape(obs_shape: tuple[int, ...]) -> tuple[int, int, int]:
    """(height, width, channels) of an image [H, W], [H, W, C] or [C, H, W].

    Raises:
        EnvironmentMismatchError: It is no image, or too small for the convolutions of Mnih et al. 2015.
    """
    last = channels_last(obs_shape)
    height, width, channels = last if len(last) == 3 else (0, 0, 0)
    if min(height, width) < FEWEST_PIXELS:
        is_small = min(height, width) >= _FEWEST_CELLS and len(obs_shape) == 3
        raise EnvironmentMismatchError(
            "this network looks at images [height, width, channels] of at least {} pixels a side, and an observation "
            "has the shape {}; use {}, or wrappers that give such",
            *(FEWEST_PIXELS, list(obs_shape), choice(_OF_CELLS if is_small else "hidden_sizes")),
        )
    return height, width, channels


def channels_last(obs_shape: tuple[int, ...]) -> tuple[int, ...]:
    """The shape of an image [H, W] or [C, H, W] as [H, W, C]; others as they are."""
    if channels_first(obs_shape):
        return (*obs_shape[1:], obs_shape[0])
    return (*obs_shape, 1) if len(obs_shape) == 2 else obs_shape


def _box_spaces(env: Env, box: spaces.Box, frame_stack: int) -> ContinuousSpaces:
    size = math.prod(box.shape)
    shape = stacked_shape(_obs_shape(env), frame_stack)
    low, high = (in_single_precision(bound.reshape(size)) for bound in (box.low, box.high))
    return ContinuousSpaces(shape, low, high)


def _obs_shape(env: Env) -> tuple[int, ...]:
    return observed_shape(env)
