"""A trained run as one uses it: observations in, actions out."""

from collections.abc import Mapping
from typing import Any

import gymnasium
import numpy as np

from note_rl.collect.predictor import Predictor
from note_rl.errors import EnvironmentMismatchError, SettingsError
from note_rl.types import Array
from tuner.errors import UserError
from tuner.runs.build import BuiltRun


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
        self._predict = Predictor(run.agent, env, np.random.default_rng(seed))
        self.observation_space, self.action_space = env.observation_space, env.action_space
        env.close()

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
        state: Mapping[str, Array] | None = None,
        episode_start: Array | bool | None = None,
        deterministic: bool = True,
        action_masks: Array | None = None,
    ) -> tuple[Array, dict[str, Array] | None]:
        """Actions for one observation, or for several stacked along a first axis; as `note_rl.RL.predict`.

        Args:
            observation: Of `observation_space`, or [E, ...] of E of them.
            state: Of a recurrent agent (`note_rl.learners.declarations.Declared.initial_state`): what the last call
                returned, arrays [E, ...] by name; None: episodes begin. Other agents have none.
            episode_start: Whether an observation is the first of its episode, one or [E], so that nothing is remembered
                from before it. Only a recurrent agent, or one that is shown several frames together, needs it; None:
                the first call (of a recurrent agent: one without a state) begins an episode, others go on with it.
            deterministic: Without exploration, as agents are evaluated; False: exploring as at the end of training.
            action_masks: Which actions are allowed, [A] or [E, A], True where they are; None: all.

        Returns:
            An action, or [E, ...] actions, as `env.step` takes them; and the state, None of an agent without one.

        Raises:
            UserError: Observations or a state of another shape.
        """
        try:
            return self._predict(observation, state, episode_start, deterministic, action_masks)
        except (EnvironmentMismatchError, SettingsError) as error:
            raise UserError(str(error)) from error
