"""A trained agent as one uses it: observations in, actions out."""

import copy
from collections.abc import Mapping
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.vector.utils import batch_space, iterate

from note_rl.adaptive.scheduled import ScheduledValues, owners
from note_rl.collect.evaluation import Greedy
from note_rl.collect.policy_runner import PolicyRunner, answers_of, masked_answers
from note_rl.environments import Env, as_the_space_has_it, flat_observations
from note_rl.environments.action_masks import truth_values
from note_rl.environments.frames import FrameStack
from note_rl.environments.observations import ObservationReader, check_finite, id_of
from note_rl.errors import EnvironmentMismatchError
from note_rl.learners.declarations import is_recurrent
from note_rl.learners.recurrence import RecurrentState, State, as_state
from note_rl.policy import exploration
from note_rl.types import Array, BoolArray


class Exploring:
    """Acts as in training, at the end of the schedules of its policy.

    Args:
        agent: Whose policy is copied.
        action_space: Of one environment.
        rng: Of exploration.

    Attributes:
        frames: Shown together, from one call to the next.
        state: Of a recurrent agent, from one call to the next.
    """

    def __init__(self, agent: Any, action_space: Any, rng: np.random.Generator) -> None:
        settings = agent.settings
        self._agent, self._action_space, self._rng = agent, action_space, rng
        self._policy = copy.deepcopy(exploration(settings.policy, None, per_agent=settings.multi_agent))
        agent.learner.actor.parameters_changed()  # by anybody, since it acted last
        self.state = RecurrentState()
        self._act = PolicyRunner(agent.learner, agent.obs_normaliser, settings.multi_agent)
        self._answers_to = answers_of(self._act, self.state, rng)
        self.frames = FrameStack(settings.experience.frame_stack)
        self._is_bound = False

    def __call__(self, obs: Array, starts: BoolArray, action_mask: BoolArray | None = None) -> Array:
        """Actions [E] or [E, A]; see `note_rl.collect.evaluation.Greedy` for the arguments."""
        if not self._is_bound:
            self._bind(len(obs))
        self._policy.reset(np.flatnonzero(starts))
        answers = self._answers_to(self.frames.show(obs, starts), starts)
        answers = masked_answers(self._act, self._policy, answers, action_mask)
        return self._policy.for_env(self._policy.select(answers, self._rng))

    def begin(self, starts: BoolArray) -> None:
        """Episodes begin, of which this call's answers are another's."""
        if self._is_bound:
            self._policy.reset(np.flatnonzero(starts))

    def _bind(self, num_envs: int) -> None:
        self._policy.bind(self._action_space, num_envs)
        schedules = self._agent.settings.schedules
        of_the_policy = {name: schedule for name, schedule in schedules.items() if owners(self._policy, name)}
        ScheduledValues(of_the_policy, self._policy, self._agent).move_to(1.0)
        if hasattr(self._policy, "num_random_steps"):
            self._policy.num_random_steps = 0  # these were at the beginning
        self._is_bound = True


class Predictor:
    """Answers one observation or several, as they come from an environment, with actions as it takes them.

    What training did to observations beyond the environment's wrappers (flattening, frames shown together,
    normalisation) is done here.

    Args:
        agent: Who acts.
        env: Whose observations and actions they are; it is not stepped, and may be closed.
        rng: Of exploration.

    Attributes:
        observation_space, action_space: Of one observation, and one action.
    """

    def __init__(self, agent: Any, env: Env, rng: np.random.Generator) -> None:
        self.observation_space, self.action_space = env.observation_space, env.action_space
        self._agent, self._rng = agent, rng
        self._name = id_of(env) or "the environment"
        self._flat = flat_observations(env)
        self._acting: dict[bool, Greedy | Exploring] = {}  # by whether without exploration
        self._num = 0  # observations in the last call
        self._is_recurrent = is_recurrent(agent)

    def __call__(
        self,
        observation: Any,
        state: Mapping[str, Array] | None,
        episode_start: Array | bool | None,
        deterministic: bool,
        action_masks: Array | None = None,
    ) -> tuple[Array, State | None]:
        """Actions for one observation, or for several stacked along a first axis, and the state behind them.

        Args:
            observation: Of `observation_space`, or [E, ...] of E of them.
            state: Of a recurrent agent, as the last call has returned it; None: episodes begin.
            episode_start: Which are the first of their episode, one or [E]; None: the first call begins one, later
                ones go on with it; of a recurrent agent, a call without a state begins one.
            deterministic: Without exploration; False: exploring as at the end of training.
            action_masks: Which of Discrete actions are allowed, [A] or [E, A]; None: all.

        Raises:
            EnvironmentMismatchError: Observations of another shape, or masks that are none.
            SettingsError: A state of another shape.
        """
        obs, is_single = self._batch(observation)
        check_finite(self._name, obs)
        if len(obs) != self._num:
            self._num, self._acting = len(obs), {}
        begin = state is None if self._is_recurrent else not self._acting
        if deterministic not in self._acting:
            added = self._choosing(deterministic)
            for other in self._acting.values():
                added.frames = other.frames  # what environments showed is one history, however actions are chosen
            self._acting[deterministic] = added
        starts = self._starts(begin if episode_start is None else episode_start, len(obs))
        masks = () if action_masks is None else (self._masks(action_masks, len(obs)),)
        self._agent.learner.actor.parameters_changed()  # by anybody, since the last call
        acting = self._acting[deterministic]
        exploring = self._acting.get(False)
        if isinstance(exploring, Exploring) and exploring is not acting:
            exploring.begin(starts)
        if self._is_recurrent:
            acting.state.arrays = None if state is None else as_state(self._agent, len(obs), state)
        actions = as_the_space_has_it(acting(obs, starts, *masks), self.action_space)
        if not is_single:
            return actions, acting.state.arrays
        action: Array = actions[0, ...] if isinstance(self.action_space, spaces.Box) else actions[0]
        return action, acting.state.arrays

    @staticmethod
    def _starts(told: Any, number: int) -> BoolArray:
        starts = np.asarray(told, np.bool_)
        if starts.shape not in ((), (1,), (number,)):
            raise EnvironmentMismatchError(
                f"episode_start has the shape {list(starts.shape)}, and there are {number} observations: give one "
                "truth value, or one for each"
            )
        return np.broadcast_to(starts, (number,)).copy()

    def _masks(self, told: Any, number: int) -> BoolArray:
        if not isinstance(self.action_space, spaces.Discrete):
            raise EnvironmentMismatchError(
                f"action_masks are for Discrete actions, and {self._name} takes {self.action_space}: leave them out"
            )
        rows = list(told) if np.iterable(told) else [told]
        rows = [rows] if rows and np.ndim(rows[0]) == 0 else rows  # one mask
        masks = truth_values(rows, number, self.action_space, "action_masks")
        if not masks.any(axis=1).all():
            raise EnvironmentMismatchError("action_masks allows no action where one is asked for")
        return masks

    def _choosing(self, deterministic: bool) -> "Greedy | Exploring":
        if deterministic:
            greedy: Greedy = self._agent.greedy_in(self.action_space)
            return greedy
        return Exploring(self._agent, self.action_space, self._rng)

    def _batch(self, observation: Any) -> tuple[Array, bool]:
        """Observations [E, *obs] as the agent sees them, and whether only one was given."""
        leaf = _leaf(self.observation_space)
        own = tuple(leaf.shape or ())
        shape = own if self._is_one(leaf, observation) else self._shape(observation)
        if shape != own and (shape[1:] != own or 0 in shape[:1]):
            raise EnvironmentMismatchError(
                f"an observation of {self._name} has the shape {list(own)}, and several of them one axis "
                f"more in front; this one has {list(shape)}"
            )
        is_single = shape == own
        if self._flat.observation_space is self.observation_space:
            assert isinstance(leaf, spaces.Box)
            reader = ObservationReader(self._name, leaf)
            if is_single:
                return reader.one(observation, "predict()")[None], True
            return reader.several(observation, shape[0], "predict()"), False
        assert isinstance(self._flat, gymnasium.ObservationWrapper)
        if is_single:
            return self._flat.observation(observation)[None], True
        try:
            parts = list(iterate(batch_space(self.observation_space, shape[0]), observation))
        except ValueError as error:  # parts of unlike lengths
            raise EnvironmentMismatchError(
                f"these are several observations of {self._name} whose parts are not of one number: {error}"
            ) from error
        return np.stack([self._flat.observation(part) for part in parts]), False

    def _is_one(self, leaf: spaces.Space[Any], observation: Any) -> bool:
        """Whether this is one observation whose first part is no array, as a text is none."""
        return not isinstance(leaf, spaces.Box) and self.observation_space.contains(observation)

    def _shape(self, observation: Any) -> tuple[int, ...]:
        """Of the first array in it."""
        first = _leaf_of(self.observation_space, observation)
        try:
            return np.shape(first)
        except ValueError as error:
            raise EnvironmentMismatchError(
                f"observations of {self._name} are arrays of one shape; these are lists of unlike lengths"
            ) from error


def _leaf(space: spaces.Space[Any]) -> spaces.Space[Any]:
    """The first array in observations that are several."""
    while isinstance(space, spaces.Dict | spaces.Tuple):
        space = next(iter(space.spaces.values())) if isinstance(space, spaces.Dict) else space.spaces[0]
    return space


def _leaf_of(space: spaces.Space[Any], observation: Any) -> Any:
    """The value there."""
    while isinstance(space, spaces.Dict | spaces.Tuple):
        key: Any = next(iter(space.spaces)) if isinstance(space, spaces.Dict) else 0
        try:
            space, observation = space.spaces[key], observation[key]
        except (TypeError, LookupError) as error:
            kind = "a dictionary" if isinstance(space, spaces.Dict) else "a tuple"
            named = f" with {', '.join(map(repr, space.spaces))}" if isinstance(space, spaces.Dict) else ""
            raise EnvironmentMismatchError(
                f"an observation here is {kind}{named}; this is a {type(observation).__name__}"
            ) from error
    return observation
