"""Environments: how they are made, checked, copied, and stepped several at a time in this process."""

import copy
import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from note_rl.errors import CheckpointError, EnvironmentMismatchError
from note_rl.goals import GoalObservation, goal_spaces, goal_wrapper
from note_rl.seeding import integer
from note_rl.types import Array, BoolArray, FloatArray

Env = gymnasium.Env[Any, Any]
MakeEnv = Callable[[], Env]
EnvLike = Env | str | MakeEnv | Sequence[Env]


@dataclass(frozen=True)
class EnvFactory:
    """Makes the same environment again and again: an id, its arguments, wrappers from inside to outside.

    Attributes:
        id: A registered Gymnasium id; `module:Name-v0` imports the module first.
        kwargs: Arguments of the environment.
        wrappers: Each takes an environment and returns one.
        max_episode_steps: Time limit in steps; None leaves the registered one.
    """

    id: str
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    wrappers: Sequence[Callable[[Env], Env]] = ()
    max_episode_steps: int | None = None

    def __call__(self) -> Env:
        """A new environment.

        Raises:
            EnvironmentMismatchError: No such id or module, or arguments the environment does not take.
        """
        self._import_module()
        try:
            env: Env = gymnasium.make(
                self.id, max_episode_steps=self.max_episode_steps, disable_env_checker=True, **self.kwargs
            )
        except (gymnasium.error.Error, gymnasium.error.DependencyNotInstalled, TypeError) as error:
            raise EnvironmentMismatchError(f"cannot make environment {self.id!r}: {error}") from error
        for wrapper in self.wrappers:
            env = wrapper(env)
        return env

    def _import_module(self) -> None:
        module = self.id.partition(":")[0] if ":" in self.id else None
        if module is None:
            return
        try:
            importlib.import_module(module)
        except ModuleNotFoundError as error:
            if error.name is None or not f"{module}.".startswith(f"{error.name}."):
                raise  # the module exists, but something it needs does not
            raise EnvironmentMismatchError(
                f"cannot make environment {self.id!r}: no module named {error.name!r} on the Python path; "
                "start from the folder that holds it, or install it"
            ) from error


def flat_observations(env: Env) -> Env:
    """The environment with observations as one array.

    Of goal observations (observation, achieved_goal, desired_goal), the first and the last are put together; what else
    is no Box already is flattened (one-hot if discrete).
    """
    if isinstance(env.observation_space, spaces.Box):
        return env
    if goal_spaces(env.observation_space) is not None:
        return GoalObservation(env)
    return gymnasium.wrappers.FlattenObservation(env)


def as_factory(env: EnvLike) -> MakeEnv:
    """A factory of fresh environments like the given one.

    Raises:
        EnvironmentMismatchError: An environment object that can be neither made again nor copied.
    """
    if isinstance(env, str):
        return EnvFactory(env)
    if isinstance(env, gymnasium.Env):
        if env.spec is not None:
            spec = env.spec
            return lambda: gymnasium.make(spec)
        template = env
        return lambda: copy.deepcopy(template)
    if isinstance(env, Sequence):
        if not env:
            raise EnvironmentMismatchError("env is an empty list; give at least one environment")
        return as_factory(env[0])
    if callable(env):
        return env
    raise EnvironmentMismatchError(f"env must be an environment, an id, a list or a factory, got {type(env).__name__}")


def make_environments(env: EnvLike, num_envs: int | None) -> list[Env]:
    """The environments to train in: the given objects themselves where there are as many, else fresh ones."""
    if isinstance(env, Sequence) and not isinstance(env, str):
        if num_envs not in (None, len(env)):
            raise EnvironmentMismatchError(f"num_envs={num_envs}, but env is a list of {len(env)}; leave num_envs out")
        return [flat_observations(one) for one in env]
    if isinstance(env, gymnasium.Env) and num_envs in (None, 1):
        return [flat_observations(env)]
    factory = as_factory(env)
    return [flat_observations(factory()) for _ in range(num_envs or 1)]


def num_discrete_actions(env: Env, agent: str) -> int:
    """The number of actions, for agents that choose one of several.

    Raises:
        EnvironmentMismatchError: The action space is not discrete.
    """
    if isinstance(env.action_space, spaces.Discrete):
        return int(env.action_space.n)
    raise EnvironmentMismatchError(
        f"{agent} chooses one of several actions, but {_name_of(env)} has the action space {env.action_space}; "
        "take an environment with discrete actions (env=cartpole)"
    )


def bounded_actions(env: Env, agent: str) -> spaces.Box:
    """The action space, for agents that choose numbers within bounds.

    Raises:
        EnvironmentMismatchError: Actions are no numbers, or have no finite bounds.
    """
    if not isinstance(env.action_space, spaces.Box):
        raise EnvironmentMismatchError(
            f"{agent} chooses vectors of numbers, but {_name_of(env)} has the action space {env.action_space}; "
            "take an environment with continuous actions (env=pendulum)"
        )
    if not np.isfinite([env.action_space.low, env.action_space.high]).all():
        raise EnvironmentMismatchError(
            f"{agent} needs actions with finite bounds, but {_name_of(env)} has {env.action_space}; wrap it with "
            "gymnasium.wrappers.RescaleAction"
        )
    return env.action_space


def _name_of(env: Env) -> str:
    return env.spec.id if env.spec is not None else type(env.unwrapped).__name__


class VectorEnvironment:
    """E environments stepped one after the other in this process, each restarted as soon as its episode ends.

    Every episode starts with a seed of its own, drawn from (seed, environment, episode number), so an episode can be
    replayed from its seed and its actions: that is how a checkpoint brings environments back.

    Args:
        envs: The environments.
        seed: Root of all episodes' seeds.
        numbers: What each is called in (seed, environment, ...), where these are some of more; None: 0, 1, ...
    """

    def __init__(self, envs: Sequence[Env], seed: int, numbers: Sequence[int] | None = None) -> None:
        self.envs = list(envs)
        self.seed = seed
        self._numbers = range(len(self.envs)) if numbers is None else numbers
        space = self.envs[0].action_space
        self.action_space = space
        self.observation_space = self.envs[0].observation_space
        self._action_start = int(space.start) if isinstance(space, spaces.Discrete) else None
        num_agents = getattr(self.envs[0].unwrapped, "num_agents", None)  # of a JointEnvironment
        self._per_agent = () if num_agents is None else (int(num_agents),)
        self._goals = [wrapper for wrapper in map(goal_wrapper, self.envs) if wrapper is not None]
        self.achieved_goal: FloatArray | None = None  # [E, G] in the next_obs of the last step, of tasks with a goal
        self._episode = [0] * len(self.envs)
        self._actions: list[list[Any]] = [[] for _ in self.envs]
        first = [self._restart(index) for index in range(len(self.envs))]
        self.obs: Array = np.stack(first)  # [E, *obs], what each environment shows now

    def __len__(self) -> int:
        """E."""
        return len(self.envs)

    def _restart(self, index: int) -> Array:
        self._actions[index].clear()
        obs, _ = self.envs[index].reset(
            seed=integer(self.seed, "environment", self._numbers[index], self._episode[index])
        )
        return self._as_stored(obs)

    def _as_stored(self, obs: Array) -> Array:
        array = np.asarray(obs)
        return array.astype(np.float32) if array.dtype == np.float64 else array

    def _to_env(self, action: Array) -> list[Any]:
        """Actions in the form that each environment takes."""
        if self._action_start is None:
            shape = self.action_space.shape or ()
            return list(action if action.shape[1:] == shape else action.reshape(-1, *shape))
        numbers: list[Any] = (action + self._action_start if self._action_start else action).tolist()
        return numbers

    def step(self, action: Array) -> tuple[Array, FloatArray, Array, BoolArray, BoolArray]:
        """Takes one step in each environment.

        Args:
            action: [E] int or [E, A] float.

        Returns:
            obs [E, *obs] acted on, reward [E] float32, next_obs [E, *obs] (the true last observation where an episode
            ended), terminated [E], ended [E] (terminated or truncated); `self.obs` then shows where each goes on.
            Of several agents, reward and terminated are [E, n].
        """
        num_envs = len(self.envs)
        reward = np.empty((num_envs, *self._per_agent), np.float32)
        next_obs = np.empty_like(self.obs)
        terminated = np.zeros((num_envs, *self._per_agent), np.bool_)
        ended = np.zeros(num_envs, np.bool_)
        achieved: list[FloatArray] = []
        previous = self.obs
        self.obs = np.empty_like(previous)
        for index, one in enumerate(self._to_env(action)):
            obs, reward[index], terminated[index], truncated, _ = self.envs[index].step(one)
            self._actions[index].append(one)
            next_obs[index] = obs
            if self._goals:
                achieved.append(self._goals[index].achieved_goal)
            if truncated or terminated[index].all():
                ended[index] = True
                self._episode[index] += 1
                self.obs[index] = self._restart(index)
            else:
                self.obs[index] = obs
        self.achieved_goal = np.stack(achieved) if achieved else None
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
            Whether the replay ended in the stored observation; False for environments that are not deterministic
            given their seed, which then go on from wherever the replay led.

        Raises:
            CheckpointError: The state is of another number of environments.
        """
        if len(state["episode"]) != len(self.envs):
            raise CheckpointError(
                f"the checkpoint holds {len(state['episode'])} environments, this run {len(self.envs)}: set num_envs"
            )
        self._episode = [int(number) for number in state["episode"]]
        for index, env in enumerate(self.envs):
            self.obs[index] = self._restart(index)
            taken = state[f"actions/{index}"]
            for action in taken.tolist() if self._action_start is not None else list(taken):
                obs, _, terminated, truncated, _ = env.step(action)
                self._actions[index].append(action)
                self.obs[index] = obs
                if truncated or np.all(terminated):
                    self.obs[index] = self._restart(index)
                    break
        return bool(np.array_equal(self.obs, state["obs"]))

    def close(self) -> None:
        """Closes every environment."""
        for env in self.envs:
            env.close()
