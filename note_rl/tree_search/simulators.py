"""Simulators: from a state and an action to the next state, without a step of the environment that is trained in.

A simulator has two methods, see `Simulator`. An agent finds it by `simulator_of`: it is given to the agent, or the
environment has a method `search_simulator()` that returns one, or the environment is CartPole.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from gymnasium import Wrapper
from gymnasium.wrappers import OrderEnforcing, PassiveEnvChecker, RecordEpisodeStatistics, TimeLimit

from note_rl.environments import Env
from note_rl.environments.action_masks import mask_reader
from note_rl.environments.goals import GoalObservation
from note_rl.environments.observations import FlatObservation, id_of
from note_rl.environments.single_environments import FirstOfVector
from note_rl.environments.training_only import RewardAsItIs
from note_rl.errors import EnvironmentMismatchError
from note_rl.errors.wording import choice
from note_rl.settings.switch_names import NUM_ENVS
from note_rl.types import Array, BoolArray, FloatArray, IntArray


@dataclass(frozen=True)
class Simulated:
    """One simulated step from each of B states.

    Attributes:
        states: Those after the step, in the form of `Simulator.begin`. [B, ...]
        obs: What the environment shows there, as the agent sees it: observations that are no array are flattened.
            [B, *obs]
        reward: Of the step. [B]
        terminated: Whether the task ended. A time limit is no end: a search goes on past it, by the values of the
            states behind. [B]
    """

    states: Array
    obs: Array
    reward: FloatArray
    terminated: BoolArray


class Simulator(Protocol):
    """Steps from any state, several at a time. The states are rows of one array, of numbers or of objects."""

    def begin(self, obs: Array) -> Array:
        """Returns the states [B, ...] in which the environment shows these observations [B, *obs]."""

    def step(self, states: Array, action: IntArray) -> Simulated:
        """Returns the next states for actions [B], which are numbered from 0; the given states stay as they are."""


MakeSimulator = Callable[[Env], Simulator]
"""Makes a simulator, given an environment like those that are trained in. A subclass of a simulator is one."""


class CartPoleSimulator:
    """CartPole, whose observation is its whole state (Barto et al. 1983).

    Args:
        env: A `CartPoleEnv`. Its constants are read once; it is reset, and takes a step.

    Raises:
        EnvironmentMismatchError: A wrapper may change the steps.
    """

    def __init__(self, env: Env) -> None:
        _check_wrappers(env, type(self).__name__)
        pole: Any = env.unwrapped
        self._gravity, self._force, self._tau = pole.gravity, pole.force_mag, pole.tau
        self._pole_mass, self._total_mass, self._length = pole.masspole, pole.total_mass, pole.length
        self._farthest, self._steepest = pole.x_threshold, pole.theta_threshold_radians
        self._semi_implicit = pole.kinematics_integrator != "euler"
        pole.reset(seed=0)
        self._rewards = (1.0, 1.0) if pole.step(0)[1] else (0.0, -1.0)  # of a step, of the last step

    def begin(self, obs: Array) -> Array:
        """See `Simulator`: position, velocity, angle and angular velocity, [B, 4]."""
        return obs.astype(np.float64)

    def step(self, states: Array, action: IntArray) -> Simulated:
        """See `Simulator`."""
        x, velocity, angle, spin = states.T
        cosine, sine = np.cos(angle), np.sin(angle)
        moment = self._pole_mass * self._length
        push = (np.where(action == 1, self._force, -self._force) + moment * spin**2 * sine) / self._total_mass
        inertia = self._length * (4.0 / 3.0 - self._pole_mass * cosine**2 / self._total_mass)
        of_spin = (self._gravity * sine - cosine * push) / inertia
        of_velocity = push - moment * of_spin * cosine / self._total_mass
        next_velocity, next_spin = velocity + self._tau * of_velocity, spin + self._tau * of_spin
        if self._semi_implicit:
            velocity, spin = next_velocity, next_spin
        x, angle = x + self._tau * velocity, angle + self._tau * spin
        reached = np.stack([x, next_velocity, angle, next_spin], axis=1)
        terminated = (np.abs(x) > self._farthest) | (np.abs(angle) > self._steepest)
        return Simulated(reached, reached.astype(np.float32), np.where(terminated, *self._rewards[::-1]), terminated)


_TOLERANCE = 1e-5
_NUM_STEPS_REPEATED = 16


class StateSimulator:
    """Steps a copy of an environment that holds its whole state in the attribute `state`, and shows it as it is.

    Of Gymnasium's environments with discrete actions these are CartPole and MountainCar. A step must not depend on
    anything else, such as random numbers. States are stepped one after the other.

    Args:
        env: Of this kind. It is reset, and takes some steps, each of them twice.

    Raises:
        EnvironmentMismatchError: It has no state, shows something else, or a step from the same state leads elsewhere;
            or a wrapper may change the steps.
    """

    def __init__(self, env: Env) -> None:
        _check_wrappers(env, type(self).__name__)
        self._env: Any = env.unwrapped
        obs, _ = env.reset(seed=0)  # some environments have no state before
        self._name = type(self._env).__name__
        if not hasattr(self._env, "state"):
            raise self._refusal(f"{self._name} has no such attribute")
        space: Any = env.action_space
        self._first = getattr(space, "start", 0)
        self._check_shows_its_state(obs)
        self._check_steps_repeat(int(space.n))

    def _refusal(self, why: str) -> EnvironmentMismatchError:
        return EnvironmentMismatchError(
            f"StateSimulator sets the attribute `state` of an environment, and {why}: write a simulator of its own, "
            "with begin(obs) and step(states, action)"
        )

    def _check_shows_its_state(self, obs: Any) -> None:
        state = self._env.state
        try:
            shown, held = np.asarray(obs, np.float32), np.asarray(state, np.float32)
        except (TypeError, ValueError) as error:
            raise self._refusal(f"that of {self._name} is {type(state).__name__}, which is no array") from error
        if shown.shape != held.shape:
            raise self._refusal(
                f"{self._name} shows an observation of the shape {list(shown.shape)}, but its state has "
                f"{list(held.shape)}"
            )
        if not np.allclose(shown, held, _TOLERANCE, _TOLERANCE):
            raise self._refusal(f"{self._name} shows {shown.tolist()} where its state is {held.tolist()}")

    def _check_steps_repeat(self, num_actions: int) -> None:
        """Takes a short walk, and then each step of it anew from the state before it."""
        state, walk = np.asarray(self._env.state, np.float64), []
        for number in range(_NUM_STEPS_REPEATED):
            action = number % num_actions
            reached, obs, reward, terminated = self._one(state, action)
            if not terminated:
                self._check_shows_its_state(obs)
            walk.append((state, action, (reached, obs, reward, terminated)))
            state = np.asarray(self._env.state, np.float64)
        for state, action, first in walk:
            again = self._one(state, action)
            if not all(np.allclose(*pair, _TOLERANCE, _TOLERANCE) for pair in zip(first, again, strict=True)):
                raise self._refusal(
                    f"{self._name} takes another step the second time that action {action + self._first} is taken in "
                    f"the state {np.asarray(state).tolist()}: a step depends on something else"
                )

    def begin(self, obs: Array) -> Array:
        """See `Simulator`: the observations in double precision."""
        return obs.astype(np.float64)

    def step(self, states: Array, action: IntArray) -> Simulated:
        """See `Simulator`."""
        steps = [self._one(state, int(one)) for state, one in zip(states, action, strict=True)]
        reached, obs, reward, terminated = (np.stack(part) for part in zip(*steps, strict=True))
        return Simulated(reached, obs, reward.astype(np.float64), terminated.astype(np.bool_))

    def _one(self, state: Array, action: int) -> tuple[Any, ...]:
        self._env.state = state.copy()
        obs, reward, terminated, _, _ = self._env.step(action + self._first)
        reached = np.asarray(self._env.state, np.float64)
        if terminated:
            self._env.reset()  # some environments note that they ended
        return reached, obs, reward, terminated


_LEAVE_STEPS_AS_THEY_ARE = (TimeLimit, OrderEnforcing, PassiveEnvChecker, RecordEpisodeStatistics, RewardAsItIs)
_SHOW_ARRAYS = (FlatObservation, GoalObservation)  # an agent puts them around; a simulator shows the same
_OWN_SIMULATOR = choice("a simulator of your own (simulator=...)")


def simulator_of(env: Env, make: MakeSimulator | None, agent: str) -> Simulator:
    """Returns the simulator of an environment.

    Args:
        env: One like those that are trained in.
        make: Given by the user; None: that of the environment itself.
        agent: Name of the agent, for messages.

    Raises:
        EnvironmentMismatchError: There is none, or a wrapper could change what the simulator simulates, or the
            environment says which actions it allows.
    """
    if mask_reader(env, env.reset(seed=0)[1]) is not None:
        raise masks_refused(agent, type(env.unwrapped).__name__)
    if make is not None:
        return make(env)
    from gymnasium.envs.classic_control import CartPoleEnv  # which nothing else needs

    if isinstance(env.unwrapped, FirstOfVector):
        raise EnvironmentMismatchError(
            "{} searches in a simulator of one environment, and {} steps several at once: give the id of an "
            "environment of Gymnasium and {}, or make it with vectorization_mode='sync'",
            *(agent, env.unwrapped.shown_name, NUM_ENVS),
        )
    own = getattr(env.unwrapped, "search_simulator", None)
    if not callable(own) and type(env.unwrapped) is not CartPoleEnv:
        raise EnvironmentMismatchError(
            "{} searches in a simulator, and {} has none: use CartPole, an environment with a method "
            "search_simulator(), or {}",
            *(agent, type(env.unwrapped).__name__, _OWN_SIMULATOR),
        )
    _check_wrappers(env, agent)
    if not callable(own):
        return CartPoleSimulator(env)
    made: Simulator = own()
    return made


def masks_refused(agent: str, source: str) -> EnvironmentMismatchError:
    """Returns the error where some actions are not allowed, of which a search takes no account.

    Args:
        agent: Name of the agent that searches.
        source: What names the allowed actions.
    """
    return EnvironmentMismatchError(
        f"{agent} searches through all actions, and {source} allows only some of them (an action mask): give the "
        "forbidden actions an effect in the environment, such as an end with a low reward, or use another agent"
    )


def _check_wrappers(env: Env, searcher: str) -> None:
    """Refuses wrappers that may change observations, rewards or ends; the innermost of them is named.

    Of those that an id stands for, around which `gymnasium.make()` puts `OrderEnforcing`, the id is named.
    """
    current: Any = env
    found = by_id = None
    while isinstance(current, Wrapper):
        by_id = id_of(env) if type(current) is OrderEnforcing else by_id
        if type(current) not in (*_LEAVE_STEPS_AS_THEY_ARE, *_SHOW_ARRAYS):  # a subclass may change steps
            found = (type(current).__name__, "leave the wrapper out")
            if by_id is not None:
                found = (f"{by_id} has a wrapper that", "use another environment")
        current = current.env
    if found is not None:
        raise EnvironmentMismatchError(
            "{} steps {} without wrappers, and {} may change its steps: {}, or include it in {}",
            *(searcher, type(env.unwrapped).__name__, *found, _OWN_SIMULATOR),
        )
