"""The values that pass between the parts. Axis letters: T time, E environments, N = T*E, K gradient steps, B batch."""

from collections.abc import Iterable, Mapping
from dataclasses import MISSING, dataclass, field, fields
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
FloatArray = NDArray[np.floating[Any]]
BoolArray = NDArray[np.bool_]
IntArray = NDArray[np.integer[Any]]
Scalar = float | int | str | bool | None
Activation = Literal["relu", "tanh", "elu", "silu"]
"""Of the hidden layers of the built-in networks, in every framework."""


@dataclass(frozen=True, slots=True)
class Steps:
    """Transitions of E environments in T consecutive steps, in the order they happened.

    Attributes:
        obs: What the agent saw. [T, E, *obs]
        action: What it did. [T, E] int or [T, E, A] float
        reward: What it got. [T, E] float32
        next_obs: What it saw next; the true last observation where an episode ended. [T, E, *obs]
        terminated: The task ended here; a time limit is not an end. [T, E] bool
        ended: The episode ended here, by the task or by a time limit. [T, E] bool
        log_prob: log-probability of the action under the policy that chose it, where it has one. [T, E] float32
        extras: Further arrays per transition that are kept beside these: `achieved_goal` of next_obs, `behaviour`, what
            action() answered, `importance_ratio` (see IMPORTANCE_RATIO), and where the environment tells it
            `action_mask`, the actions that it allowed, and `next_action_mask`, those that it allows next;
            `state_before` and `episode_start` (see STATE_BEFORE). [T, E, ...]

    With several agents, an axis for them follows E everywhere but in `ended`.
    """

    obs: Array
    action: Array
    reward: FloatArray
    next_obs: Array
    terminated: BoolArray
    ended: BoolArray
    log_prob: FloatArray | None = None
    extras: Mapping[str, Array] = field(default_factory=dict)

    @property
    def num_env_steps(self) -> int:
        """T * E."""
        return self.ended.size


def _always_there(kind: type) -> tuple[str, ...]:
    return tuple(one.name for one in fields(kind) if one.default is MISSING and one.default_factory is MISSING)


STEP_COLUMNS = _always_there(Steps)
"""The arrays of steps that there always are, in their order: obs to ended."""
BEHAVIOUR = "behaviour"
"""The extra that holds what the agent's action() answered when it acted: the whole distribution of its actions."""
IMPORTANCE_RATIO = "importance_ratio"
"""The extra that holds how much likelier the agent's own probabilities made an action than the policy that chose it."""
ACTION_MASK = "action_mask"
"""The extra, and the key of an environment's info, that holds which actions are allowed; [..., A] bool."""
NEXT_ACTION_MASK = "next_action_mask"
"""The extra that holds which actions were allowed next."""
STATE_BEFORE = "state_before"
"""The extra that holds the state of a recurrent agent before it saw obs, all of its arrays in a row. [T, E, S]"""
EPISODE_START = "episode_start"
"""For losses over sequences: 1 where obs was the first of its episode, else 0."""
EXTRAS = "extras"
"""Where the further arrays of a transition lie among named arrays: `extras/achieved_goal`."""


@dataclass(frozen=True, slots=True)
class Episode:
    """One finished episode: undiscounted return, length in steps, and which environment it ran in."""

    return_: float
    length: int
    env_index: int


@dataclass(frozen=True, slots=True)
class Transitions:
    """Transitions as they are learned from, of one step or of several, whatever axes [...] their arrays begin with.

    Attributes:
        obs, action, reward, next_obs: As in `Steps`; the reward of a k-step transition is discounted and summed.
        terminated: 1.0 where the task ended, else 0.0. [...] float32
        discount: What the value of `next_obs` is multiplied by: gamma^k for a k-step transition, 0 where the
            task ended. [...] float32
        extras: Further arrays by name.
    """

    obs: Array
    action: Array
    reward: FloatArray
    next_obs: Array
    terminated: FloatArray
    discount: FloatArray
    extras: Mapping[str, Array] = field(default_factory=dict)


TRANSITION_COLUMNS = _always_there(Transitions)
"""The arrays of a transition that there always are, in their order: obs to discount."""


@dataclass(frozen=True, slots=True)
class Sample:
    """Minibatches for an update block of K gradient steps; every array has the leading axes [K, B].

    Where samples are sequences of T steps, an axis for these follows in all but weights, sync and slots: [K, B, T].

    Attributes:
        obs, action, reward, next_obs, terminated, discount: As in `Transitions`.
        extras: Further per-sample arrays an algorithm asks for (advantage, return_, log_prob_old, value_old,
            achieved_goal, expert_obs, expert_action). [K, B, ...]
        weights: Importance weights, where sampling was not uniform. [K, B] float32
        sync: Whether the target parameters are updated after each gradient step. [K] bool
        slots: Where the transitions lie in the buffer, to hand priorities back. [K, B] int
    """

    obs: Array
    action: Array
    reward: FloatArray
    next_obs: Array
    terminated: FloatArray
    discount: FloatArray
    sync: BoolArray
    extras: Mapping[str, Array] = field(default_factory=dict)
    weights: FloatArray | None = None
    slots: IntArray | None = None

    @property
    def num_gradient_steps(self) -> int:
        """K."""
        return len(self.reward)


@dataclass(frozen=True, slots=True)
class Update:
    """Results of an update block.

    Attributes:
        loss: The mean loss of each gradient step, one column per optimizer; where parameter groups wait for a sync, one
            per group, and nan in the steps in which it has waited. [K, G]
        td_error: What the agent handed to `prioritized_replay.update(TD)`, if it did. [K, B]
        ratio: What it handed over as `ratio`, if it did. [K, B]
        reported: Means of what it gave to `report(...)`, by name, and `gradient_norm` where gradients are clipped; nan
            where a step has none. [K]
        diverged: A loss or a parameter was not finite. The agent is as it was before the update block, or, in short
            ones of large networks, before the gradient step in which that was seen.
    """

    loss: FloatArray
    td_error: FloatArray | None = None
    ratio: FloatArray | None = None
    reported: Mapping[str, FloatArray] = field(default_factory=dict)
    diverged: bool = False


@dataclass(frozen=True, slots=True)
class Evaluation:
    """Undiscounted returns and lengths of evaluation episodes, [n] each."""

    returns: FloatArray
    lengths: IntArray

    @property
    def mean(self) -> float:
        """Mean return."""
        return float(self.returns.mean())


@dataclass(frozen=True, slots=True)
class TrainResult:
    """Results of a call of train().

    Attributes:
        returns: Undiscounted return of each finished episode.
        lengths: Its length in environment steps.
        episode_steps: Environment steps taken, over the agent's life, when it ended.
        losses: Mean loss of each training phase; nan before learning starts, and where a parameter group has waited
            throughout.
        num_env_steps: Environment steps over the agent's life.
        num_gradient_steps: Gradient steps over the agent's life.
        seconds: Wall time of this call.
        stop_reason: "total_steps", "episodes", "criterion", "early_stopping" or "stop_training".
    """

    returns: list[float]
    lengths: list[int]
    episode_steps: list[int]
    losses: list[float]
    num_env_steps: int
    num_gradient_steps: int
    seconds: float
    stop_reason: str


def nested(prefix: str, arrays: Mapping[str, Array]) -> dict[str, Array]:
    """The arrays with a prefix before their names."""
    return {f"{prefix}/{name}": values for name, values in arrays.items()}


def nested_parts(parts: Iterable[Mapping[str, Array]]) -> dict[str, Array]:
    """The arrays of several parts, with the number of the part before their names."""
    return {name: values for index, part in enumerate(parts) for name, values in nested(str(index), part).items()}


def without(prefix: str, arrays: Mapping[str, Array]) -> dict[str, Array]:
    """The arrays whose names do not begin with the prefix."""
    return {name: values for name, values in arrays.items() if not name.startswith(f"{prefix}/")}


def under(prefix: str, arrays: Mapping[str, Array]) -> dict[str, Array]:
    """The arrays whose names begin with the prefix, without it."""
    return {name.removeprefix(f"{prefix}/"): values for name, values in arrays.items() if name.startswith(f"{prefix}/")}
