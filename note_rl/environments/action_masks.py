"""Which of several actions environments allow: announced as `info["action_mask"]`, or by a method `action_masks()`."""

import copy
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from gymnasium import spaces
from gymnasium.vector import AsyncVectorEnv, SyncVectorEnv

from note_rl.environments.base import AnyVectorEnv, Env
from note_rl.environments.observations import name_of
from note_rl.errors import EnvironmentMismatchError, say_once
from note_rl.types import ACTION_MASK, BoolArray

_log = logging.getLogger(__name__)
_METHOD = "action_masks"
_NAME = "an action mask (info['action_mask'] or action_masks())"
ReadMasks = Callable[[Mapping[str, Any]], Any]


class AllAllowed:
    """Masks of E environments that announce none: all actions are allowed. `step` is called after each step of theirs.

    Args:
        name: Of the environment, for messages.
        space: Of its actions.

    Attributes:
        now: Which actions are allowed in the observations that they show, [E, A]; None: all.
        after: The same in those that followed the last step; the true last ones where an episode ended.
    """

    now: BoolArray | None = None
    after: BoolArray | None = None

    def __init__(self, name: str, space: Any) -> None:
        self._name, self._space = name, space
        self._has_looked = False

    def told(self, index: int, info: Mapping[str, Any]) -> Any:
        """The mask that an environment announces in a step that it has just taken, kept as it is then."""
        if not self._has_looked:
            self._has_looked = True
            check_unheeded(self._name, self._space, info)

    def step(self, told: Sequence[Any], over: Sequence[int]) -> None:
        """All environments have taken a step and said this [E]; episodes are over where the numbers say."""

    def replay(self, index: int, info: Mapping[str, Any], ends: Sequence[Any]) -> None:
        """An environment has taken a step by itself, to be brought back to where it was."""

    def begin(self, index: int, info: Mapping[str, Any]) -> None:
        """An environment has begun an episode."""


class ActionMasks(AllAllowed):
    """Masks of E environments that announce which actions they allow.

    Args:
        readers: Of each environment; see `mask_reader`.
        name: Of the environment, for messages.
        space: Of their actions.
    """

    now: BoolArray
    after: BoolArray

    def __init__(self, readers: Sequence[ReadMasks], name: str, space: Any) -> None:
        super().__init__(name, space)
        self._readers = readers
        self.now = np.ones((len(readers), space.n), np.bool_)
        self.after = self.now

    def told(self, index: int, info: Mapping[str, Any]) -> Any:
        """See `AllAllowed`."""
        return copy.copy(self._readers[index](info))  # others may write to the same array

    def step(self, told: Sequence[Any], over: Sequence[int]) -> None:
        """See `AllAllowed`."""
        self.now = self.after = checked_masks(told, np.isin(np.arange(len(told)), over), self._space)

    def replay(self, index: int, info: Mapping[str, Any], ends: Sequence[Any]) -> None:
        """See `AllAllowed`."""
        self._set(index, info, any(map(np.all, ends)))

    def begin(self, index: int, info: Mapping[str, Any]) -> None:
        """See `AllAllowed`."""
        self._set(index, info, False)

    def _set(self, index: int, info: Mapping[str, Any], over: bool) -> None:
        self.now = self.now.copy()  # arrays that were handed out stay as they were
        self.now[index] = checked_masks([self._readers[index](info)], np.array([over]), self._space)[0]


def action_masks(envs: Sequence[Env], infos: Sequence[Mapping[str, Any]]) -> AllAllowed:
    """Returns the masks of environments that have just been reset.

    Args:
        envs: Single environments, whose spaces are alike.
        infos: Of their first resets.

    Raises:
        EnvironmentMismatchError: Some say it and some do not.
    """
    readers = [mask_reader(env, info) for env, info in zip(envs, infos, strict=True)]
    known = [reader for reader in readers if reader is not None]
    if not known:
        nothing = AllAllowed(name_of(envs[0]), envs[0].action_space)
        if any(ACTION_MASK in info for info in infos):
            check_unheeded(name_of(envs[0]), envs[0].action_space, {ACTION_MASK: None})
        return nothing
    if len(known) < len(readers):
        raise EnvironmentMismatchError(
            f"{len(known)} of {len(readers)} environments tell which actions they allow (info['action_mask'] or "
            "action_masks()): either all of them must, or none"
        )
    masks = ActionMasks(known, name_of(envs[0]), envs[0].action_space)
    for index, info in enumerate(infos):
        masks.begin(index, info)
    return masks


def check_unheeded(name: str, space: Any, info: Mapping[str, Any]) -> None:
    """Looks at an info of an environment whose masks are not read.

    Args:
        name: Of the environment.
        space: Of its actions.
        info: Of a step; or of a reset, where its actions are not Discrete.

    Raises:
        EnvironmentMismatchError: It tells of Discrete actions which are allowed, and its reset() did not.
    """
    if ACTION_MASK not in info:
        return
    if isinstance(space, spaces.Discrete):
        raise EnvironmentMismatchError(
            f"step() of {name} tells which actions are allowed (info['action_mask']), and its first reset() did not: "
            "put the mask into the info of both"
        )
    say_once(
        _log,
        f"{name} tells by info['action_mask'] which actions are allowed; masks are heeded where actions are Discrete, "
        f"and these are {space}: any of them is taken",
    )


def mask_reader(env: Env, info: Mapping[str, Any]) -> ReadMasks | None:
    """How to read what an environment allows, from the info of each step; None: it never says.

    Args:
        env: A single environment.
        info: Of its first reset.
    """
    if not isinstance(env.action_space, spaces.Discrete):
        return None
    if ACTION_MASK in info:
        return lambda info: info.get(ACTION_MASK)
    if not _has_method(env):
        return None
    method = env.get_wrapper_attr(_METHOD)
    return lambda info: method()


def vector_mask_reader(env: AnyVectorEnv, info: Mapping[str, Any]) -> ReadMasks | None:
    """The same for a vector environment, whose masks are [E, A]."""
    if not isinstance(env.single_action_space, spaces.Discrete):
        return None
    if ACTION_MASK in info:
        return lambda info: info.get(ACTION_MASK)
    inner: Any = env.unwrapped
    if not isinstance(inner, SyncVectorEnv | AsyncVectorEnv):
        method = getattr(inner, _METHOD, None)
        return None if method is None else lambda info: method()
    single = inner.env_fns[0]()
    found = _has_method(single)
    single.close()
    return (lambda info: inner.call(_METHOD)) if found else None


def _has_method(env: Any) -> bool:
    return hasattr(env, "has_wrapper_attr") and bool(env.has_wrapper_attr(_METHOD))


def checked_masks(given: Any, over: BoolArray, space: Any) -> BoolArray:
    """The masks as truth values [E, A]; where an episode is over nothing need be allowed, and all counts as such.

    Args:
        given: [E, A] of any type; None: nothing.
        over: Whether the episode has ended. [E]
        space: Of one action, Discrete.

    Raises:
        EnvironmentMismatchError: Another shape, other values, or an environment that goes on and allows nothing.
    """
    given = [None] * len(over) if given is None else given
    nowhere = np.zeros(int(space.n), np.bool_)
    masks = truth_values([nowhere if row is None else row for row in given], len(over), space)
    nothing = ~masks.any(axis=1)
    if (nothing & ~over).any():
        raise EnvironmentMismatchError(
            "an environment allows no action and yet goes on: its action mask (info['action_mask'] or action_masks()) "
            "must be there after every reset and step, and hold True somewhere unless the episode has ended"
        )
    masks[nothing] = True
    return masks


def truth_values(given: Sequence[Any], number: int, space: Any, name: str = _NAME) -> BoolArray:
    """Masks [number, A] as truth values.

    Args:
        given: [number, A], numbers 0 and 1 or truth values.
        number: Of masks that there must be.
        space: Of one action, Discrete.
        name: What they are called, for messages.

    Raises:
        EnvironmentMismatchError: Another shape, or other values, as of numbers that are to be added to scores.
    """
    num_actions = int(space.n)
    rows = [np.asarray(row) for row in given]
    wrong = next((row.shape for row in rows if row.shape != (num_actions,)), None)
    if wrong is not None or len(rows) != number:
        got = f"{len(rows)} of them for {number}" if wrong is None else f"the shape {list(wrong)}"
        raise EnvironmentMismatchError(
            f"{name} must have one entry for each of the {num_actions} actions, True where it is allowed; got {got}"
        )
    masks = np.array(rows)
    if masks.dtype != np.bool_:
        other = (masks != 0) & (masks != 1)
        if other.any():
            raise EnvironmentMismatchError(
                f"{name} holds {masks[other][0]}, and must hold 1 or True where an action is allowed, else 0"
            )
    return masks.astype(np.bool_)
