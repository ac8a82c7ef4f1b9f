"""Points of the study's grid: a model is evaluated, saved and reported while it learns, without a trace in it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from note_rl.errors import DivergedError
from tuner.features.sb3.sb3_internals import normaliser_of
from tuner.features.sb3.sb3_state import is_finite, random_numbers, set_random_numbers, state_of
from tuner.runs.function_state import report
from tuner.trial.reporter import Reporter


class BudgetSpentError(Exception):
    """The steps of the run are taken; some algorithms do not listen to what a callback returns."""


@dataclass
class StudyGrid:
    """Evaluates at the first step at or behind each point of the grid.

    Args:
        trial: Gets reports and signs of life.
        make: Makes an environment for evaluation.
        total_steps: Of the run.
        num_points: Of the grid.
        num_episodes: Of each evaluation.
        seed: Of the run.
        saves_replay: Whether the replay pool is saved with the model.
    """

    trial: Reporter
    make: Callable[[], Any]
    total_steps: int
    num_points: int
    num_episodes: int
    seed: int
    saves_replay: bool = True

    def __post_init__(self) -> None:
        self._done = 0

    def begin(self, steps: int) -> None:
        """Leaves out the points up to a step, which an earlier attempt has reported."""
        self._done = sum(self._step(number) <= steps for number in range(1, self.num_points + 1))

    def at(self, model: Any, values: Any = None) -> None:
        """To be called after each step.

        Args:
            model: That learns.
            values: Of what it has acted upon, where it learns from rollouts.

        Raises:
            BudgetSpentError: That was the last point.
            note_rl.errors.DivergedError: A weight is no longer finite.
            TrialInterrupted: The run is to end early.
        """
        steps = int(model.num_timesteps)
        self.trial.alive(min(1.0, steps / self.total_steps))
        while self._done < self.num_points and steps >= self._step(self._done + 1):
            self._done += 1
            if not is_finite(model):
                raise DivergedError(f"weights are no longer finite at step {steps}")
            before = random_numbers()
            score = self.evaluate(model)
            set_random_numbers(before)
            state = state_of(model, values)
            if not self.saves_replay:
                state.pop("replay", None)
            report(self.trial, self._done / self.num_points, score, {}, state)
        if self._done == self.num_points:
            raise BudgetSpentError

    def evaluate(self, model: Any) -> float:
        """Mean return of episodes in an environment of its own, by the raw rewards, without exploration."""
        seeds = np.random.SeedSequence([self.seed, self._done]).generate_state(self.num_episodes)
        env = self.make()
        try:
            return float(np.mean([play_episode(model, env, int(seed)) for seed in seeds]))
        finally:
            env.close()

    def _step(self, number: int) -> int:
        return round(self.total_steps * number / self.num_points)


def play_episode(model: Any, env: Any, seed: int, deterministic: bool = True) -> float:
    """The return of an episode by the raw rewards.

    Args:
        model: Acts.
        env: Of Gymnasium, one.
        seed: Of the episode.
        deterministic: Without exploration.
    """
    normaliser, total = normaliser_of(model), 0.0
    obs, _ = env.reset(seed=seed)
    state, first, ended = None, np.ones(1, bool), False
    masks = env.get_wrapper_attr("action_masks") if env.has_wrapper_attr("action_masks") else None
    takes_masks = masks is not None and type(model).__name__ == "MaskablePPO"
    while not ended:
        seen = obs if normaliser is None else normaliser.normalize_obs(obs)
        extra = {"action_masks": masks()} if takes_masks and masks is not None else {}
        action, state = model.predict(seen, state=state, episode_start=first, deterministic=deterministic, **extra)
        obs, reward, terminated, truncated, _ = env.step(action)
        total, first, ended = total + float(reward), np.zeros(1, bool), bool(terminated or truncated)
    return total
