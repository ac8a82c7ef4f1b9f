"""A trained model of Stable-Baselines3, restored from the arrays that its run has saved."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from note_rl.environments import EnvFactory, for_evaluation
from note_rl.training.film import FilmFile, film
from note_rl.types import Array
from tuner.errors import UserError
from tuner.features.sb3.sb3_grid import play_episode
from tuner.features.sb3.sb3_internals import normaliser_of
from tuner.features.sb3.sb3_trainer import Sb3
from tuner.runs.build import build_function
from tuner.runs.function_state import FunctionState


class Sb3Player:
    """Acts as a trained model does. `predict` is that of the model, with the normaliser of its training applied.

    Args:
        model: Of Stable-Baselines3, restored.
        environment: That it was trained in.

    Attributes:
        model: The model itself: `model.save(...)` writes it as Stable-Baselines3 does.
        environment: That it was trained in.
        num_env_steps: Steps of training.
        observation_space: Of one observation.
        action_space: Of one action.
    """

    def __init__(self, model: Any, environment: EnvFactory) -> None:
        self.model, self.environment = model, environment
        self.num_env_steps = int(model.num_timesteps)
        self.observation_space, self.action_space = model.observation_space, model.action_space

    def __repr__(self) -> str:
        """Returns a line: which algorithm, where, and for how long."""
        return f"<Sb3Player: {type(self.model).__name__} on {self.environment.id}, {self.num_env_steps:,} steps>"

    def make_env(self) -> Any:
        """A new environment as evaluations have it."""
        return for_evaluation(self.environment)()

    def predict(
        self,
        observation: Any,
        state: Any = None,
        episode_start: Any = None,
        deterministic: bool = True,
        action_masks: Array | None = None,
    ) -> tuple[Array, Any]:
        """Actions for one observation, or for several stacked along a first axis.

        Args:
            observation: As the environment shows it.
            state: Of RecurrentPPO: what the last call returned; None: episodes begin.
            episode_start: Whether an observation is the first of its episode, [E].
            deterministic: Without exploration, as models are evaluated.
            action_masks: Of MaskablePPO: which actions are allowed, True where they are; None: all.
        """
        normaliser = normaliser_of(self.model)
        seen = observation if normaliser is None else normaliser.normalize_obs(observation)
        masks = {} if action_masks is None else {"action_masks": action_masks}
        action, state = self.model.predict(
            seen, state=state, episode_start=episode_start, deterministic=deterministic, **masks
        )
        return action, state

    def returns(self, num_episodes: int, seed: int, explores: bool) -> Array:
        """Returns [num_episodes] of episodes by the raw rewards."""
        seeds = np.random.SeedSequence(seed).generate_state(num_episodes)
        env = self.make_env()
        try:
            return np.array([play_episode(self.model, env, int(one), not explores) for one in seeds])
        finally:
            env.close()

    def film(self, max_steps: int, files: Sequence[FilmFile] | None, seed: int, explores: bool) -> float:
        """Plays one episode, in a window or into files; returns its return."""

        def play(make: Any) -> float:
            return play_episode(self.model, make(), seed, not explores)

        return film(play, for_evaluation(self.environment), lambda env: env, max_steps, files)


def load(config: Mapping[str, Any], folder: Path) -> Sb3Player:
    """The model of a run as it was at its last evaluation. No pickle is read.

    Args:
        config: Of the run; it was checked.
        folder: Of the run.

    Raises:
        UserError: It has saved nothing yet.
        note_rl.errors.CheckpointError: The checkpoint is damaged.
    """
    state = FunctionState(folder).read_newest()
    if state is None:
        raise UserError(f"{folder} has no checkpoint yet: the run has not come to its first evaluation")
    run = build_function({**config["agent"], "device": "cpu"})
    assert isinstance(run, Sb3)
    return Sb3Player(run.restored(int(config["seed"]), state), run.environment)
