"""Checks of reset() and step() of an environment against Gymnasium's contract and the environment's spaces.

What costs next to nothing is looked at in every step (types, shapes, the number of values); whether an observation is
in its space, once. Nan and infinity are looked for in whole blocks of steps, where these are collected.
"""

import inspect
import logging
import traceback
from collections.abc import Mapping
from typing import Any, cast

import numpy as np
from gymnasium import spaces
from gymnasium.vector import AsyncVectorEnv, SyncVectorEnv

from note_rl.environments.action_masks import mask_reader
from note_rl.environments.base import AnyVectorEnv, Env
from note_rl.environments.observations import ObservationReader, check_finite, name_of
from note_rl.errors import EnvironmentMismatchError, say_once
from note_rl.types import Array

_log = logging.getLogger(__name__)
MISTAKES = (TypeError, ValueError, AttributeError, LookupError)
"""Errors that Python raises where values are not what they are taken for."""
_PLAIN_REWARDS = (float, int, np.floating, np.integer, np.bool_)
_FIVE = "observation, reward, terminated, truncated, info"
_AS_GYM_DID = f"as Gym did before 0.26; Gymnasium wants five: {_FIVE} (wrapped by shimmy, old ones give them)"


class Answers:
    """One environment, whose answers are checked before anything else sees them.

    Args:
        env: With observations as one array; see `flat_observations`.

    Attributes:
        shape, dtype: Of an observation.
        per_agent: (n,) where n agents act together, which get a reward and an end each; else empty.
    """

    def __init__(self, env: Env) -> None:
        self.env = env
        self._name = name_of(env)
        self._space = cast(spaces.Box, env.observation_space)
        self._read = ObservationReader(self._name, self._space)
        self.shape, self.dtype = self._read.shape, self._read.dtype
        inner: Any = env.unwrapped
        several = getattr(type(inner), "answers_per_agent", False)
        self.per_agent: tuple[int, ...] = (int(inner.num_agents),) if several else ()
        self._num_looks = 2  # at the first reset and the first step
        self._spaces = _spaces_of(inner)

    def reset(self, seed: int) -> tuple[Array, Mapping[str, Any]]:
        """The first observation of an episode, and the info.

        Raises:
            EnvironmentMismatchError: reset() takes no seed, or gives something else.
        """
        try:
            answer = self.env.reset(seed=seed)
        except MISTAKES as error:
            explain(self.env, error)
            raise
        shown, info = _of_reset(self._name, answer)
        self._check_same_spaces()
        obs = self._read.one(shown, "reset()")
        check_finite(self._name, obs)  # before anything acts upon it
        if self._num_looks:
            self._look(obs)
        return obs, info

    def step(self, action: Any) -> tuple[Array, Any, Any, Any, Mapping[str, Any]]:
        """Observation, reward, terminated, truncated and info: true or false, or [n] where n agents act.

        Args:
            action: As the environment takes it; it may write to it.

        Raises:
            EnvironmentMismatchError: step() gives something else.
        """
        try:
            answer: Any = self.env.step(action)
            obs, reward, terminated, truncated, info = answer
        except MISTAKES as error:
            explain(self.env, error)
            raise
        if type(obs) is not np.ndarray or obs.dtype is not self.dtype or obs.shape != self.shape:
            obs = self._read.one(obs, "step()")
        if self._num_looks:
            self._look(obs)
        if type(info) is not dict:
            check_info(self._name, "step()", info)
        if self.per_agent:
            done, late = self._each(terminated, "terminated"), self._each(truncated, "truncated")
            return obs, self._each(reward, "reward"), done, bool(np.all(done | late) and not np.all(done)), info
        if type(reward) is not float:
            reward = one_reward(self._name, reward)
        if type(terminated) is not bool:
            terminated = _flag(self._name, "terminated", terminated)
        if type(truncated) is not bool:
            truncated = _flag(self._name, "truncated", truncated)
        return obs, reward, terminated, truncated, info

    def _each(self, values: Any, what: str) -> Array:
        """One for all agents [], or one of each [n]."""
        try:
            array = np.asarray(values)
        except ValueError:  # lists of unlike lengths
            array = np.empty(0)
        if array.size != 1 and array.shape != self.per_agent:
            raise EnvironmentMismatchError(
                f"step() of {self._name} gave {what} of the shape {list(array.shape)}: give one for each of the "
                f"{self.per_agent[0]} agents"
            )
        is_flag = what != "reward"
        if array.dtype.kind not in ("biu" if is_flag else "biuf") or (is_flag and not np.isin(array, (0, 1)).all()):
            wanted = "True or False" if is_flag else "a number"
            raise EnvironmentMismatchError(
                f"step() of {self._name} gave {described(values)} as {what}; it must be {wanted} for each of the agents"
            )
        array = array.astype(np.bool_) if is_flag else array
        return array if array.shape == self.per_agent else array.reshape(())

    def _check_same_spaces(self) -> None:
        """Refuses an environment that has changed its spaces: networks and what is kept are of the former ones."""
        for name, former, now in zip(
            ("action", "observation"), self._spaces, _spaces_of(self.env.unwrapped), strict=True
        ):
            if now is former or now == former or (name == "observation" and _as_wide(now, former)):
                continue
            hint = ", and tell by info['action_mask'] which actions are allowed" if name == "action" else ""
            raise EnvironmentMismatchError(
                f"reset() of {self._name} changed its {name} space from {former} to {now}, and one agent acts in "
                f"all of its episodes: keep the widest one{hint}"
            )

    def _look(self, obs: Array) -> None:
        """Says once where an observation is outside of the bounds of its space, which nothing here depends on."""
        self._num_looks -= 1
        space = self._space
        with np.errstate(invalid="ignore"):
            outside = (obs < space.low) | (obs > space.high)
        if outside.any():
            say_once(
                _log,
                f"{self._name} shows {obs[outside].flat[0]:g}, which is outside of the bounds of its observation space "
                f"{space}",
            )


def _spaces_of(inner: Any) -> tuple[Any, Any]:
    """Of actions and observations, before any wrapper; None where only a wrapper has one."""
    return getattr(inner, "action_space", None), getattr(inner, "observation_space", None)


def _as_wide(one: Any, other: Any) -> bool:
    """Whether observations of both have arrays of the same shapes and types; their bounds do not matter."""
    if isinstance(one, spaces.Dict) and isinstance(other, spaces.Dict):
        return list(one) == list(other) and all(_as_wide(one[key], other[key]) for key in one)
    if isinstance(one, spaces.Tuple) and isinstance(other, spaces.Tuple):
        return len(one) == len(other) and all(map(_as_wide, one, other))
    if isinstance(one, spaces.Box) and isinstance(other, spaces.Box):
        return (one.shape, one.dtype) == (other.shape, other.dtype)
    return bool(one == other)


def _of_reset(name: str, answer: Any) -> tuple[Any, Mapping[str, Any]]:
    """Returns observation and info."""
    if not isinstance(answer, tuple | list) or len(answer) != 2:
        raise EnvironmentMismatchError(
            f"reset() of {name} gave {described(answer)}; Gymnasium wants two values, the observation and info, a "
            "dictionary: return obs, {}"
        )
    check_info(name, "reset()", answer[1])
    return answer[0], answer[1]


def check_info(name: str, method: str, info: Any) -> None:
    """Refuses an info that is no dictionary (EnvironmentMismatchError)."""
    if isinstance(info, Mapping):
        return
    values = "obs, {}" if method == "reset()" else "obs, reward, terminated, truncated, {}"
    raise EnvironmentMismatchError(
        f"{method} of {name} gave {described(info)} as info, its last value; Gymnasium wants a dictionary: return "
        f"{values}"
    )


def one_reward(name: str, reward: Any) -> float:
    """The number that a reward is, also one in an array.

    Raises:
        EnvironmentMismatchError: It is no number, or several, or masked.
    """
    try:
        if isinstance(reward, _PLAIN_REWARDS):
            return float(reward)
        array = np.asarray(reward)
    except (*MISTAKES, OverflowError, RuntimeError):  # lists of unlike lengths, 10**400, a tensor with a gradient
        array = np.empty(0)
    if array.size != 1 or array.dtype.kind not in "biuf" or np.ma.is_masked(reward):
        raise EnvironmentMismatchError(
            f"step() of {name} gave {described(reward)} as the reward; it must be one number, such as 1.0"
            + (", as a weighted sum in gymnasium.wrappers.TransformReward gives it" if array.size > 1 else "")
        )
    return float(array.item())


def _flag(name: str, what: str, value: Any) -> bool:
    array = np.asarray(value)
    if array.size != 1 or array.dtype.kind not in "biu" or array.item() not in (0, 1):
        raise EnvironmentMismatchError(
            f"step() of {name} gave {described(value)} as {what}; it must be True or False (its five values are "
            f"{_FIVE})"
        )
    return bool(array.item())


def described(value: Any) -> str:
    """A short description of a value, for messages."""
    if isinstance(value, int) and value.bit_length() > 1024:
        return f"a whole number of {value.bit_length()} bits"
    if value is None or isinstance(value, bool | int | float | complex | str):
        return repr(value)[:40]
    if isinstance(value, np.ndarray):
        return f"an array of the shape {list(value.shape)}"
    if isinstance(value, tuple | list):
        return f"a {type(value).__name__} of {len(value)}"
    return f"a {type(value).__name__}"


def explain(env: Any, error: Exception) -> None:
    """Looks for the reason of an error around reset() or step() in what the environment itself takes and gives.

    Wrappers, which come first, take its answers for what they should be. So the environment is asked once more, alone.
    An error that its own code raised is its author's to see.

    Args:
        env: With its wrappers.
        error: That came out of it, or of reading what it gave.

    Raises:
        EnvironmentMismatchError: The reason, if it is found.
    """
    inner: Any = getattr(env, "unwrapped", env)
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    if isinstance(error, EnvironmentMismatchError) or any(
        type(frame.f_locals.get("self")) is type(inner) for frame in frames
    ):
        return
    check_spaces(inner)
    name = name_of(env)
    try:
        inspect.signature(inner.reset).bind(seed=0, options=None)
    except TypeError as unlike:
        raise EnvironmentMismatchError(
            f"reset() of {name} does not take what Gymnasium gives it ({unlike}): write def reset(self, *, seed=None, "
            "options=None)"
        ) from error
    _held_against(name, inner.observation_space, _of_reset(name, inner.reset(seed=0))[0], "reset()")
    answer = inner.step(inner.action_space.sample())
    if not isinstance(answer, tuple | list) or len(answer) != 5:
        old = isinstance(answer, tuple | list) and len(answer) == 4
        raise EnvironmentMismatchError(
            f"step() of {name} gave {described(answer)}, "
            + (_AS_GYM_DID if old else f"and Gymnasium wants five values: {_FIVE}")
        ) from error
    _held_against(name, inner.observation_space, answer[0], "step()")
    one_reward(name, answer[1])
    _flag(name, "terminated", answer[2])
    _flag(name, "truncated", answer[3])
    check_info(name, "step()", answer[4])


def _held_against(name: str, space: spaces.Space[Any], obs: Any, method: str) -> None:
    if isinstance(space, spaces.Box):
        ObservationReader(name, space).one(obs, method)
    elif not space.contains(obs):
        raise EnvironmentMismatchError(
            f"{method} of {name} gave {str(obs)[:100]} as an observation, which is not in its observation space {space}"
        )


def explain_vector(env: AnyVectorEnv, error: Exception) -> None:
    """The same for a vector environment of Gymnasium's, of which one environment is asked."""
    inner: Any = env.unwrapped
    if isinstance(inner, SyncVectorEnv):
        explain(inner.envs[0], error)
    elif isinstance(inner, AsyncVectorEnv):
        one = inner.env_fns[0]()
        try:
            explain(one, error)
        finally:
            one.close()


def check_arrays_are_new(env: AnyVectorEnv, name: str) -> None:
    """Refuses environments that show the next episode in the very array of the last observation.

    Gymnasium's vector environments keep that array as `final_obs` while the environment begins anew.
    """
    inner: Any = env.unwrapped
    if not isinstance(inner, SyncVectorEnv | AsyncVectorEnv):
        return
    one = inner.env_fns[0]()
    try:
        _, info = one.reset(seed=0)
        read = mask_reader(one, info)
        mask = () if read is None else (np.asarray(read(info), np.int8),)
        last, *_ = one.step(one.action_space.sample(*mask))
        first, _ = one.reset()
    finally:
        one.close()
    pairs = zip(last.values(), first.values(), strict=True) if isinstance(last, dict) else [(last, first)]
    if any(np.may_share_memory(np.asarray(before), np.asarray(after)) for before, after in pairs):
        raise EnvironmentMismatchError(
            f"{name} shows all observations in one array, and in AutoresetMode.SAME_STEP {type(inner).__name__} then "
            "gives the first one of the next episode as the last one (final_obs): return copies from reset() and "
            "step(), or take another autoreset mode"
        )


def check_spaces(env: Any) -> None:
    """Refuses an environment without an observation or action space of Gymnasium's (EnvironmentMismatchError)."""
    examples = {"observation_space": "Box(-1.0, 1.0, (3,))", "action_space": "Discrete(2)"}
    for attribute, example in examples.items():
        space = getattr(env, attribute, None)
        if isinstance(space, spaces.Space):
            continue
        has = f"is {type(space).__module__}.{type(space).__name__}" if space is not None else "is missing"
        raise EnvironmentMismatchError(
            f"{attribute} of {name_of(env)} {has}: __init__ must set it to one of gymnasium.spaces, for example "
            f"self.{attribute} = gymnasium.spaces.{example}"
        )
