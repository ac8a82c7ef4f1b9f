"""A trained agent as one uses it: observations in, actions out."""

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.vector.utils import batch_space, iterate

from note_rl.collect.evaluation import Greedy
from note_rl.environments import as_the_space_has_it, flat_observations
from note_rl.types import Array, BoolArray
from tuner.errors import UserError
from tuner.runs.build import BuiltRun
from tuner.runs.trained import Exploring


class Player:
    """Acts as a trained agent does. `predict` has the form of Stable-Baselines3's.

    Observations are those of `make_env()`, which has the wrappers of training; what training did beyond that
    (normalisation, flattening, frames shown together) is done here.

    Args:
        run: Restored from a checkpoint.
        seed: Of exploration.

    Attributes:
        run: The objects behind it: `run.agent` is the agent itself, `run.config` what it was built from.
        observation_space: Of one observation.
        action_space: Of one action.

    Raises:
        UserError: Several agents act in its environment.
    """

    def __init__(self, run: BuiltRun, seed: int | None = None) -> None:
        if run.agent.settings.multi_agent:
            raise UserError("predict() is for one agent, and several act in this environment: use run.agent itself")
        self.run = run
        env = self.make_env()
        self.observation_space, self.action_space = env.observation_space, env.action_space
        self._flat = flat_observations(env)
        env.close()
        self._rng = np.random.default_rng(seed)
        self._acting: dict[bool, _Greedily | _Exploring] = {}
        self._num = 0  # observations in the last call

    def __repr__(self) -> str:
        """Returns a line: what was trained, where, with which seed and for how long."""
        config, steps = self.run.config, self.run.agent.num_env_steps
        name = type(self.run.agent).__name__
        return f"<Player: {name} ({config.backend.name}) on {config.env.id}, seed {config.seed}, {steps:,} steps>"

    def make_env(self) -> gymnasium.Env[Any, Any]:
        """A new environment as the agent was trained in."""
        return self.run.environment()

    def predict(
        self,
        observation: Any,
        state: None = None,
        episode_start: Array | bool | None = None,
        deterministic: bool = True,
        action_masks: Array | None = None,
    ) -> tuple[Array, None]:
        """Actions for one observation, or for several stacked along a first axis.

        Args:
            observation: Of `observation_space`, or [E, ...] of E of them.
            state: There is none; only for the form of the call.
            episode_start: Whether an observation is the first of its episode, one or [E]. Only an agent that is shown
                several frames together needs it; None: the first call begins an episode, later ones go on with it.
            deterministic: Without exploration, as agents are evaluated; False: exploring as at the end of training.
            action_masks: Which actions are allowed, [A] or [E, A], True where they are; None: all.

        Returns:
            An action, or [E, ...] actions, as `env.step` takes them; and None.

        Raises:
            UserError: Observations of another shape.
        """
        del state
        obs, is_single = self._batch(observation)
        if len(obs) != self._num:
            self._num, self._acting = len(obs), {}
        if deterministic not in self._acting:
            self._acting[deterministic] = _Greedily(self) if deterministic else _Exploring(self, self._rng)
        masks = None if action_masks is None else np.asarray(action_masks, np.bool_).reshape(len(obs), -1)
        actions = self._acting[deterministic](obs, episode_start, masks)
        actions = as_the_space_has_it(actions, self.action_space)
        return (actions[0] if is_single else actions), None

    def _batch(self, observation: Any) -> tuple[Array, bool]:
        """Observations [E, *obs] as the agent sees them, and whether only one was given."""
        leaf, shape = _leaf(self.observation_space), np.shape(_leaf_of(self.observation_space, observation))
        if shape not in (leaf.shape, (*shape[:1], *(leaf.shape or ()))):
            raise UserError(
                f"an observation of {self.run.config.env.id} has the shape {list(leaf.shape or ())}, and several of "
                f"them one axis more in front; this one has {list(shape)}"
            )
        is_single = shape == leaf.shape
        if self._flat.observation_space is self.observation_space:
            values = np.asarray(observation, leaf.dtype)
            return (values[None] if is_single else values), is_single
        assert isinstance(self._flat, gymnasium.ObservationWrapper)
        whole = batch_space(self.observation_space, 1 if is_single else shape[0])
        parts = [observation] if is_single else iterate(whole, observation)
        return np.stack([self._flat.observation(part) for part in parts]), is_single


class _Greedily:
    """Without exploration."""

    def __init__(self, player: Player) -> None:
        self._choose: Greedy = player.run.agent.greedy_in(player.action_space)
        self._began = False

    def __call__(self, obs: Array, episode_start: Array | bool | None, masks: BoolArray | None) -> Array:
        starts, self._began = _starts(len(obs), episode_start, self._began), True
        return self._choose(obs, starts, masks)


class _Exploring:
    """As in training, at the end of its schedules."""

    def __init__(self, player: Player, rng: np.random.Generator) -> None:
        self._choose = Exploring(player.run.agent, player.action_space, rng)
        self._began = False

    def __call__(self, obs: Array, episode_start: Array | bool | None, masks: BoolArray | None) -> Array:
        starts, self._began = _starts(len(obs), episode_start, self._began), True
        return self._choose(obs, starts, masks)


def _starts(num: int, told: Array | bool | None, began: bool) -> BoolArray:
    return np.broadcast_to(np.asarray(not began if told is None else told, np.bool_), (num,)).copy()


def _leaf(space: spaces.Space[Any]) -> spaces.Space[Any]:
    """The first array in observations that are several."""
    while isinstance(space, spaces.Dict | spaces.Tuple):
        space = next(iter(space.spaces.values())) if isinstance(space, spaces.Dict) else space.spaces[0]
    return space


def _leaf_of(space: spaces.Space[Any], observation: Any) -> Any:
    """The value there."""
    while isinstance(space, spaces.Dict | spaces.Tuple):
        key: Any = next(iter(space.spaces)) if isinstance(space, spaces.Dict) else 0
        space, observation = space.spaces[key], observation[key]
    return observation
