"""Environments of several agents, seen as one environment whose arrays have an agent axis.

Two kinds are understood, recognised by what they have: PettingZoo's parallel environments (`possible_agents`;
PettingZoo itself is never imported), and environments whose reset() and step() speak in lists, one entry per agent.
"""

import inspect
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import gymnasium
import numpy as np
from gymnasium import spaces

from note_rl.environments import EnvFactory, as_the_space_has_it, check_listed, is_environment
from note_rl.environments.observations import FlatReader, ObservationReader, name_of
from note_rl.environments.step_checks import described, one_reward
from note_rl.errors import EnvironmentMismatchError, say_once
from note_rl.settings.switch_names import MARL, NUM_ENVS
from note_rl.types import ACTION_MASK, Array

_log = logging.getLogger(__name__)

RewardDone = Callable[[Array, Array], tuple[Any, Any]]

_KINDS = "a PettingZoo parallel environment, or one whose reset() and step() give lists with one entry per agent"


class JointEnvironment(gymnasium.Env[Array, Array]):
    """n agents acting at the same time in one environment.

    Observations are [n, *obs] and actions [n] int or [n, A] float; step() returns reward [n] and terminated [n]. Agents
    of unlike shapes are zero-padded to the largest. An agent that has left sees zeros, earns nothing and stays
    terminated until the episode ends, which it does when nobody is left or time is up.

    Args:
        env: A parallel or list-style environment.
        reward_done: Maps the rewards [n] and dones [n] of a step to others, one number for all or one per agent; the
            agent's `reward_done_func_ma`.

    Raises:
        EnvironmentMismatchError: Another kind of environment, or spaces that cannot be put together.
    """

    answers_per_agent = True  # see `Answers.per_agent`

    def __init__(self, env: Any, reward_done: RewardDone | None = None) -> None:
        self.env = env
        self.reward_done = reward_done
        if hasattr(env, "agent_iter"):
            raise EnvironmentMismatchError(_in_turn(type(env).__name__))
        self._side: _Parallel | _Lists = _Parallel(env) if hasattr(env, "possible_agents") else _Lists(env)
        self.shown_name = self._side.name
        self.num_agents = len(self._side.action_spaces)
        self.metadata = dict(getattr(env, "metadata", None) or {})
        self.render_mode = getattr(env, "render_mode", None)
        self._flatten = not _all_alike(self._side.observation_spaces)
        self.agent_observation_spaces = [self._seen(space) for space in self._side.observation_spaces]
        self.agent_action_spaces = list(self._side.action_spaces)
        self.observation_space = _joint_observations(self.agent_observation_spaces)
        self._readers = [
            FlatReader(self._side.name, space, f"of agent {index}")
            if self._flatten
            else ObservationReader(self._side.name, cast(spaces.Box, space), f"of agent {index}")
            for index, space in enumerate(self._side.observation_spaces)
        ]
        self.action_space = _joint_actions(self.agent_action_spaces)

    def _seen(self, space: spaces.Space[Any]) -> spaces.Box:
        return cast(spaces.Box, spaces.flatten_space(space) if self._flatten else space)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Array, dict[str, Any]]:
        """Observations [n, *obs]."""
        super().reset(seed=seed)
        return self._stacked(self._side.reset(seed)), {}

    def step(self, action: Array) -> tuple[Array, Any, Any, bool, dict[str, Any]]:
        """Observations [n, *obs], reward [n] float64, terminated [n] bool, whether time is up.

        Raises:
            EnvironmentMismatchError: What `reward_done` returned has another length.
        """
        actions = [_own_action(one, space) for one, space in zip(action, self.agent_action_spaces, strict=True)]
        gone = self._side.gone.copy()
        observations, reward, terminated, over = self._side.step(actions)
        reward[gone] = 0.0
        terminated |= gone
        if self.reward_done is not None:
            new_reward, new_terminated = self.reward_done(reward, terminated)
            reward = self._per_agent(new_reward, "rewards").astype(np.float64)
            terminated = self._per_agent(new_terminated, "dones").astype(np.bool_)
        return self._stacked(observations), reward, terminated, over and not terminated.all(), {}

    def _per_agent(self, values: Any, what: str) -> Array:
        array = np.asarray(values)
        if array.ndim == 0 or array.shape == (self.num_agents,):
            return np.broadcast_to(array, (self.num_agents,))
        raise EnvironmentMismatchError(
            f"reward_done_func_ma returned {what} of the shape {list(array.shape)}; give one number for all agents or "
            f"one for each of the {self.num_agents}"
        )

    def _stacked(self, observations: Sequence[Any]) -> Array:
        """Zero-padded to the largest; None (an agent that has left) becomes zeros."""
        assert self.observation_space.shape is not None
        joint = np.zeros(self.observation_space.shape, self.observation_space.dtype)
        for row, seen, reader in zip(joint, observations, self._readers, strict=True):
            if seen is not None:
                array = reader.one(seen, "reset() or step()")
                row[: len(array)] = array
        return joint

    def render(self) -> Any:
        """The picture that the environment draws."""
        return self.env.render()

    def close(self) -> None:
        """Closes it."""
        if hasattr(self.env, "close"):
            self.env.close()


_ALONE = (
    "{} truncates one agent while others go on: that agent learns that its last state is worth nothing, as if it had "
    "ended there; truncate all agents together"
)


class _Parallel:
    """A PettingZoo parallel environment: dictionaries keyed by the agent's name; agents may leave."""

    def __init__(self, env: Any) -> None:
        self.env = env
        self.name = name_of(env)
        self.names = list(env.possible_agents)
        self.observation_spaces = [env.observation_space(name) for name in self.names]
        self.action_spaces = [env.action_space(name) for name in self.names]
        self.gone = np.zeros(len(self.names), np.bool_)  # [n] who has left this episode

    def reset(self, seed: int | None) -> list[Any]:
        answer = self.env.reset(seed=seed)
        if not isinstance(answer, tuple) or len(answer) != 2:
            raise EnvironmentMismatchError(
                f"reset() of {self.name} gave {described(answer)}, and a parallel environment gives two values, the "
                "observations and the infos of its agents (PettingZoo before 1.22 gave no infos): return observations, "
                "{name: {} for name in observations}"
            )
        self.gone = self._gone()
        self._say_if_masked(answer[1])
        return self._seen("reset()", answer[0])

    def step(self, actions: Sequence[Any]) -> tuple[list[Any], Array, Array, bool]:
        """Observations, reward [n], terminated [n], whether the episode is over."""
        chosen = {name: one for name, one, gone in zip(self.names, actions, self.gone, strict=True) if not gone}
        answer = self.env.step(chosen)
        if not isinstance(answer, tuple) or len(answer) != 5:
            raise EnvironmentMismatchError(
                f"step() of {self.name} gave {described(answer)}, and a parallel environment gives five values by "
                "agent: observations, rewards, terminations, truncations, infos (PettingZoo before 1.22 gave four)"
            )
        observations, reward, terminated, truncated, _ = answer
        missing = [name for name in chosen if name not in reward or name not in terminated]
        if missing:
            raise EnvironmentMismatchError(
                f"step() of {self.name} gave no reward or termination of the agent {missing[0]!r}, which has acted"
            )
        self.gone = self._gone()
        over = bool(self.gone.all()) or all(terminated[name] or truncated.get(name) for name in chosen)
        if not over and any(truncated.get(name) and not terminated[name] for name in chosen):
            say_once(_log, _ALONE, self.name)
        earned = [one_reward(self.name, reward.get(name, 0.0)) for name in self.names]
        ended = [bool(terminated.get(name, False)) for name in self.names]
        return self._seen("step()", observations), np.array(earned, np.float64), np.array(ended, np.bool_), over

    def _say_if_masked(self, infos: Any) -> None:
        if isinstance(infos, Mapping) and any(ACTION_MASK in info for info in infos.values() if info):
            say_once(
                _log,
                "{} tells by action_mask which actions are allowed, and several agents do not heed it: have step() "
                "take any action",
                self.name,
            )

    def _seen(self, method: str, observations: Mapping[Any, Any]) -> list[Any]:
        """By agent; None of those that have left."""
        for name, gone in zip(self.names, self.gone, strict=True):
            if not gone and observations.get(name) is None:
                raise EnvironmentMismatchError(
                    f"{method} of {self.name} gave no observation of the agent {name!r}, which is among its agents"
                )
        return [observations.get(name) for name in self.names]

    def _gone(self) -> Array:
        present = set(self.env.agents)
        return np.array([name not in present for name in self.names])


class _Lists:
    """An environment that speaks in lists. Its spaces are lists too, or one space that holds for every agent.

    step() gives (observations, rewards, dones, infos), or five values with terminations and truncations apart; reset()
    gives observations, or a pair with infos. A time limit counts as truncation, and so does
    `TimeLimit.truncated` in infos.
    """

    def __init__(self, env: Any) -> None:
        if not (hasattr(env, "reset") and hasattr(env, "step") and hasattr(env, "action_space")):
            raise EnvironmentMismatchError("{} needs {}; got {}", MARL.at(True), _KINDS, type(env).__name__)
        self.env = env
        self.name = name_of(env)
        self.action_spaces = _as_list(env.action_space)
        self.observation_spaces = _as_list(env.observation_space)
        number = max(len(self.action_spaces), len(self.observation_spaces), int(getattr(env, "n", 1)))
        self.action_spaces = self._for_all(self.action_spaces, number)
        self.observation_spaces = self._for_all(self.observation_spaces, number)
        if number == 1:
            raise EnvironmentMismatchError(
                "{} needs several agents, but {} has one action space; it takes {} (set its attribute n if all agents "
                "share one space)",
                *(MARL.at(True), type(env).__name__, _KINDS),
            )
        self.gone = np.zeros(number, np.bool_)  # [n] whose task has ended in this episode
        self._takes_seed = "seed" in inspect.signature(env.reset).parameters  # those of older environments do not

    def _for_all(self, given: list[spaces.Space[Any]], number: int) -> list[spaces.Space[Any]]:
        if len(given) in (1, number):
            return given if len(given) == number else given * number
        raise EnvironmentMismatchError(
            f"{type(self.env).__name__} has {number} agents but {len(given)} spaces; give one per agent"
        )

    def reset(self, seed: int | None) -> list[Any]:
        returned = self.env.reset(seed=seed) if self._takes_seed else self.env.reset()
        self.gone[:] = False
        if isinstance(returned, tuple) and len(returned) == 2 and isinstance(returned[1], Mapping):
            returned = returned[0]
        return self._seen(returned)

    def step(self, actions: Sequence[Any]) -> tuple[list[Any], Array, Array, bool]:
        """Observations, reward [n], terminated [n], whether the episode is over."""
        number = len(actions)
        answer = self.env.step(list(actions))
        if not isinstance(answer, tuple | list) or len(answer) not in (4, 5):
            raise EnvironmentMismatchError(
                f"step() of {self.name} gave {described(answer)}; it must give observations, rewards, dones and infos, "
                "or five values with terminations and truncations apart"
            )
        observations, reward, *flags, infos = answer
        for what, values in (("rewards", reward), *(("dones", flag) for flag in flags)):
            if np.size(values) not in (1, number):
                raise self._wrong_number(what, np.size(values))
        terminated = _broadcast(flags[0], number, np.bool_)
        ended = terminated | _broadcast(flags[1], number, np.bool_) if len(flags) == 2 else terminated
        over = bool(ended.all())
        late = _late(infos, number)
        terminated, over = terminated & ~late, over or bool(late.all())
        self.gone |= terminated
        if not over and bool((ended & ~self.gone).any()):
            say_once(_log, _ALONE, self.name)
        return self._seen(observations), _broadcast(reward, number, np.float64), terminated, over

    def _seen(self, observations: Any) -> list[Any]:
        listed = list(observations)
        if len(listed) != len(self.gone):
            raise self._wrong_number("observations", len(listed))
        return listed

    def _wrong_number(self, what: str, number: int) -> EnvironmentMismatchError:
        return EnvironmentMismatchError(
            f"{self.name} gave {number} {what} in a list, and has {len(self.gone)} agents: give one for each"
        )


def joint_environments(env: Any, reward_done: RewardDone | None = None) -> Any:
    """The same as `env`, an environment, an id, a list or a factory, with every environment seen as a joint one.

    Raises:
        EnvironmentMismatchError: An environment of another kind.
    """
    if isinstance(env, list | tuple):
        check_listed(env)
        return [joint_environments(one, reward_done) for one in env]
    if isinstance(env, gymnasium.vector.VectorEnv):
        raise EnvironmentMismatchError(
            "{} cannot use a vector environment: give {}, with {}", MARL.at(True), _KINDS, NUM_ENVS
        )
    if is_environment(env):
        return _joint(env, reward_done)
    if hasattr(env, "agent_iter"):
        raise EnvironmentMismatchError(_in_turn(str(env)))
    make = EnvFactory(env) if isinstance(env, str) else env
    if callable(make):
        return lambda: _joint(make(), reward_done)
    raise EnvironmentMismatchError("{} needs {}, a list of such or a factory; got {!r}", MARL.at(True), _KINDS, env)


def _joint(env: Any, reward_done: RewardDone | None) -> gymnasium.Env[Any, Any]:
    """The environment itself if there is a joint one below its wrappers."""
    inner = getattr(env, "unwrapped", None)
    if not isinstance(inner, JointEnvironment):
        return JointEnvironment(env, reward_done)
    if reward_done is not None:
        inner.reward_done = reward_done
    made: gymnasium.Env[Any, Any] = env
    return made


def _in_turn(name: str) -> str:
    return (
        f"the agents of {name} act one after the other (AEC), and here all act at once: use its parallel_env(), "
        "pettingzoo.utils.aec_to_parallel where the rules allow it, or " + _KINDS
    )


def _as_list(given: Any) -> list[spaces.Space[Any]]:
    if isinstance(given, spaces.Tuple):
        return list(given.spaces)
    return list(given) if isinstance(given, list | tuple) else [given]


def _late(infos: Any, number: int) -> Array:
    """Of which agents [n] an info says that their end is one by a time limit: one for all, or one of each."""
    listed = infos if isinstance(infos, list | tuple) else [infos]
    late = [isinstance(info, Mapping) and bool(info.get("TimeLimit.truncated")) for info in listed]
    return _broadcast(late if len(late) in (1, number) else any(late), number, np.bool_)


def _broadcast(values: Any, number: int, dtype: type[np.generic]) -> Array:
    return np.array(np.broadcast_to(np.asarray(values, dtype).reshape(-1), (number,)))


def _all_alike(given: Sequence[spaces.Space[Any]]) -> bool:
    return all(isinstance(space, spaces.Box) and space.shape == given[0].shape != () for space in given)


def _joint_observations(given: Sequence[spaces.Box]) -> spaces.Box:
    shape = max((space.shape for space in given), key=lambda one: one[0])
    dtype = given[0].dtype if all(space.dtype == given[0].dtype for space in given) else np.dtype(np.float32)
    assert dtype is not None
    low = np.zeros((len(given), *shape), dtype)
    high = np.zeros_like(low)
    for index, space in enumerate(given):
        low[index, : space.shape[0]] = space.low
        high[index, : space.shape[0]] = space.high
    return spaces.Box(low, high, dtype=dtype.type)


def _joint_actions(given: Sequence[spaces.Space[Any]]) -> spaces.Space[Any]:
    """MultiDiscrete [n] of numbers counted from 0, or Box [n, A]."""
    discrete = [space for space in given if isinstance(space, spaces.Discrete)]
    if len(discrete) == len(given):
        return spaces.MultiDiscrete([int(space.n) for space in discrete])
    boxes = [space for space in given if isinstance(space, spaces.Box) and len(space.shape) == 1]
    if len(boxes) != len(given):
        raise EnvironmentMismatchError(
            "the agents' action spaces must be all discrete or all one-dimensional boxes; they are "
            + ", ".join(str(space) for space in given)
        )
    low = np.zeros((len(boxes), max(space.shape[0] for space in boxes)), np.float32)
    high = np.zeros_like(low)
    for index, space in enumerate(boxes):
        low[index, : space.shape[0]] = space.low
        high[index, : space.shape[0]] = space.high
    return spaces.Box(low, high)


def _own_action(action: Any, space: spaces.Space[Any]) -> Any:
    """One agent's action in the form that its space has: without padding, counted from its own start."""
    if isinstance(space, spaces.Discrete):
        return int(action) + int(space.start)
    assert space.shape is not None
    return as_the_space_has_it(np.asarray(action)[None, : space.shape[0]], space)[0]
