"""Environments stepped one after the other in this process."""

import copy
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np
from gymnasium import spaces

from note_rl.environments.action_masks import action_masks
from note_rl.environments.base import Env, as_the_space_has_it
from note_rl.environments.goals import goal_layout, goal_wrapper
from note_rl.environments.observations import name_of
from note_rl.environments.step_checks import Answers
from note_rl.environments.training_only import RewardAsItIs, is_over
from note_rl.environments.wrappers import wrapper_of
from note_rl.errors import CheckpointError, EnvironmentMismatchError
from note_rl.seeding import integer
from note_rl.settings.switch_names import NUM_ENVS
from note_rl.support.precision import in_single_precision
from note_rl.types import ACTION_MASK, Array, BoolArray, FloatArray


class VectorEnvironment:
    """E environments stepped one after the other in this process, each restarted as soon as its episode ends.

    Every episode starts with a seed of its own, drawn from (seed, environment, episode number), so an episode can be
    replayed from its seed and its actions: that is how a checkpoint brings environments back. A step of CartPole takes
    about 8 us, so what surrounds it in step() is kept to a few NumPy calls for all environments together.

    Args:
        envs: The environments, whose spaces are alike.
        seed: Root of all episodes' seeds.
        numbers: What each is called in (seed, environment, ...), where these are some of more; None: 0, 1, ...

    Raises:
        EnvironmentMismatchError: Their spaces are not alike.
    """

    alive: BoolArray | None = None  # all of them, always

    def __init__(self, envs: Sequence[Env], seed: int, numbers: Sequence[int] | None = None) -> None:
        self.envs = list(envs)
        for number, env in enumerate(self.envs):
            unlike = difference(self.envs[0], env)
            if unlike is not None:
                raise EnvironmentMismatchError(
                    f"environments 0 and {number} of the list env are unlike: {unlike}; one agent acts in all of them, "
                    "so leave one out or bring them together by wrappers"
                )
        self.seed = seed
        self.name = name_of(self.envs[0])
        self._answers = [Answers(env) for env in self.envs]
        self._numbers = range(len(self.envs)) if numbers is None else numbers
        space = self.envs[0].action_space
        self.action_space = space
        self.observation_space = self.envs[0].observation_space
        self.goal_layout = goal_layout(self.envs[0])
        self._action_start = int(space.start) if isinstance(space, spaces.Discrete) else None
        self._per_agent = self._answers[0].per_agent
        self._goals = [wrapper for wrapper in map(goal_wrapper, self.envs) if wrapper is not None]
        self.achieved_goal: FloatArray | None = None  # [E, G] in the next_obs of the last step, of tasks with a goal
        found = [wrapper_of(env, RewardAsItIs) for env in self.envs]
        self._as_they_are = [wrapper for wrapper in found if wrapper is not None]
        self.counted: FloatArray = np.zeros((len(self.envs), *self._per_agent))
        self._episode = [0] * len(self.envs)
        self._actions: list[list[Any]] = [[] for _ in self.envs]
        first, infos = [], []
        for index in range(len(self.envs)):
            obs, info = self._begin(index)
            first.append(np.array(obs))  # the next environment may write to the same array
            infos.append({ACTION_MASK: copy.copy(info[ACTION_MASK])} if ACTION_MASK in info else {})
        self.obs: Array = np.stack(first)  # [E, *obs], what each environment shows now
        self._masks = action_masks(self.envs, infos)

    def __len__(self) -> int:
        """E."""
        return len(self.envs)

    @property
    def action_mask(self) -> BoolArray | None:
        """See `Environments`."""
        return self._masks.now

    @property
    def next_action_mask(self) -> BoolArray | None:
        """See `Environments`."""
        return self._masks.after

    def _begin(self, index: int) -> tuple[Array, Mapping[str, Any]]:
        self._actions[index].clear()
        return self._answers[index].reset(integer(self.seed, "environment", self._numbers[index], self._episode[index]))

    def _restart(self, index: int) -> Array:
        obs, info = self._begin(index)
        self._masks.begin(index, info)
        return obs

    def _to_env(self, action: Array) -> tuple[list[Any], list[Any]]:
        """Actions in the form that each environment takes, twice: to be kept, and for it to do with as it likes."""
        if self._action_start is None:
            kept = as_the_space_has_it(action, self.action_space)
            given = kept.copy()
            return list(kept), [given[index, ...] for index in range(len(given))]  # arrays, also of no axis
        numbers: list[Any] = (action + self._action_start if self._action_start else action).tolist()
        return numbers, numbers

    def step(self, action: Array) -> tuple[Array, FloatArray, Array, BoolArray, BoolArray]:
        """Takes one step in each environment; see `Environments.step`."""
        num_envs = len(self.envs)
        earned = np.empty((num_envs, *self._per_agent))
        next_obs = np.empty_like(self.obs)
        terminated = np.zeros((num_envs, *self._per_agent), np.bool_)
        ended = np.zeros(num_envs, np.bool_)
        over = []
        told = []
        kept, given = self._to_env(action)
        for index, answers in enumerate(self._answers):
            next_obs[index], earned[index], done, truncated, info = answers.step(given[index])
            self._actions[index].append(kept[index])
            told.append(self._masks.told(index, info))
            if self._per_agent:
                terminated[index] = done
                done = terminated[index].all()
            elif done:
                terminated[index] = True
            if (done or truncated) and is_over(done, truncated, info):
                over.append(index)
        reward = in_single_precision(earned)
        self.counted = np.array([wrapper.take() for wrapper in self._as_they_are]) if self._as_they_are else earned
        if self._goals:
            self.achieved_goal = np.stack([goal.achieved_goal for goal in self._goals])
        previous, self.obs = self.obs, next_obs
        self._masks.step(told, over)
        if over:
            ended[over] = True
            self.obs = next_obs.copy()
            for index in over:
                self._episode[index] += 1
                self.obs[index] = self._restart(index)
        return previous, reward, next_obs, terminated, ended

    def get_state(self) -> dict[str, Array]:
        """Per environment: the number of its episode, and the actions taken in it so far."""
        state: dict[str, Array] = {"episode": np.asarray(self._episode, np.int64), "obs": self.obs}
        for index, actions in enumerate(self._actions):
            state[f"actions/{index}"] = np.asarray(actions)
        return state

    def set_state(self, state: Mapping[str, Array]) -> bool:
        """Brings every environment back to where it was by replaying its episode.

        Returns:
            Whether the replay ended in the stored observations; False for environments that are not deterministic
            given their seed, all of which then begin a new episode.

        Raises:
            CheckpointError: The state is of another number of environments.
        """
        check_number(state, len(self.envs))
        self._episode = [int(number) for number in state["episode"]]
        self.obs = self.obs.copy()  # arrays that were handed out stay as they were
        for index, answers in enumerate(self._answers):
            self.obs[index] = self._restart(index)
            taken = state[f"actions/{index}"]
            for action in taken.tolist() if self._action_start is not None else list(taken):
                obs, _, terminated, truncated, info = answers.step(
                    np.array(action) if self._action_start is None else action
                )
                self._actions[index].append(action)
                self._masks.replay(index, info, (terminated, truncated))
                self.obs[index] = obs
                if is_over(bool(np.all(terminated)), truncated, info):
                    self.obs[index] = self._restart(index)
                    break
        for wrapper in self._as_they_are:
            wrapper.take()  # what was earned in the replay has been counted
        exact = bool(np.array_equal(self.obs, state["obs"]))
        if not exact:
            self.restart()
        return exact

    def restart(self) -> None:
        """Begins the next episode in every environment."""
        self.obs = self.obs.copy()  # arrays that were handed out stay as they were
        for index in range(len(self.envs)):
            self._episode[index] += 1
            self.obs[index] = self._restart(index)

    def close(self) -> None:
        """Closes every environment."""
        for env in self.envs:
            env.close()


class WithSpaces(Protocol):
    """An object with the spaces of one environment."""

    action_space: Any
    observation_space: Any


def difference(first: WithSpaces, second: WithSpaces) -> str | None:
    """In words, why one agent cannot act in both; None: it can. The bounds of observations may differ."""
    seen, also_seen = first.observation_space, second.observation_space
    if (seen.shape, seen.dtype) != (also_seen.shape, also_seen.dtype):
        return f"observations {seen} and {also_seen}"
    if first.action_space != second.action_space:
        return f"actions {first.action_space} and {second.action_space}"
    return None


def check_number(state: Mapping[str, Array], num_envs: int) -> None:
    """Refuses the state of another number of environments (CheckpointError)."""
    if len(state["episode"]) != num_envs:
        raise CheckpointError(
            "the checkpoint holds {} environments, this run {}: set {}", len(state["episode"]), num_envs, NUM_ENVS
        )
