"""Points of the study's grid: a model is evaluated, saved and reported while it learns, without a trace in it."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from note_rl.errors import DivergedError
from note_rl.support.memory import release_freed
from tuner.features.sb3.sb3_internals import normaliser_of
from tuner.features.sb3.sb3_state import is_finite, random_numbers, set_random_numbers, state_of
from tuner.results.metric import STEP_TOLERANCE
from tuner.runs.function_state import report, save
from tuner.trial.messages import JsonDict, TrialInterrupted
from tuner.trial.reporter import Reporter

_IS_DUE = "is_due"
"""Of a saved state: whether there is a point at its step that was not evaluated."""


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

    def go_on(self, model: Any, state: JsonDict) -> None:
        """Leaves out the points that an earlier attempt has evaluated, and evaluates those at which it was ended.

        Args:
            model: As it was saved.
            state: What was saved of it.

        Raises:
            TrialInterrupted: The run is to end early.
        """
        steps = int(model.num_timesteps)
        self._done = sum(self._step(number) <= steps for number in range(1, self.num_points + 1))
        if state.get(_IS_DUE):
            last = max((step for step, _ in self.trial.reported), default=0.0)
            self._done = min(self._done, math.ceil((last - STEP_TOLERANCE) * self.num_points))
            self._evaluate_up_to(model, lambda: state)  # not of the model, whose rollout is put back when one begins

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
        self._give_sign(model)
        self._evaluate_up_to(model, lambda: state_of(model, values))
        if self._done == self.num_points:
            raise BudgetSpentError

    def _give_sign(self, model: Any) -> None:
        self.trial.alive(min(1.0, int(model.num_timesteps) / self.total_steps))

    def _evaluate_up_to(self, model: Any, state: Callable[[], JsonDict]) -> None:
        """Evaluates, saves and reports at the points up to the step of a model.

        If an evaluation is broken off, the model is saved all the same: it is evaluated anew when the run goes on.
        """
        steps = int(model.num_timesteps)
        while self._done < self.num_points and steps >= self._step(self._done + 1):
            self._done += 1
            if not is_finite(model):
                raise DivergedError(f"weights are no longer finite at step {steps}")
            before = random_numbers()
            try:
                score = self.evaluate(model)
            except TrialInterrupted:
                set_random_numbers(before)
                save(self.trial, self._kept(state(), is_due=True))
                raise
            set_random_numbers(before)
            release_freed()
            is_due = self._done < self.num_points and steps >= self._step(self._done + 1)
            report(self.trial, self._done / self.num_points, score, {}, self._kept(state(), is_due))

    def _kept(self, state: JsonDict, is_due: bool) -> JsonDict:
        left_out = () if self.saves_replay else ("replay",)
        return {**{name: part for name, part in state.items() if name not in left_out}, _IS_DUE: is_due}

    def evaluate(self, model: Any) -> float:
        """Mean return of episodes in an environment of its own, by the raw rewards, without exploration."""
        seeds = np.random.SeedSequence([self.seed, self._done]).generate_state(self.num_episodes)
        env = self.make()
        try:
            sign = partial(self._give_sign, model)
            return float(np.mean([play_episode(model, env, int(seed), check=sign) for seed in seeds]))
        finally:
            env.close()

    def _step(self, number: int) -> int:
        return round(self.total_steps * number / self.num_points)


def play_episode(
    model: Any, env: Any, seed: int, deterministic: bool = True, check: Callable[[], object] = lambda: None
) -> float:
    """The return of an episode by the raw rewards.

    Args:
        model: Acts.
        env: Of Gymnasium, one.
        seed: Of the episode.
        deterministic: Without exploration.
        check: Called before each step.
    """
    normaliser, total = normaliser_of(model), 0.0
    obs, _ = env.reset(seed=seed)
    state, first, ended = None, np.ones(1, bool), False
    masks = env.get_wrapper_attr("action_masks") if env.has_wrapper_attr("action_masks") else None
    takes_masks = masks is not None and type(model).__name__ == "MaskablePPO"
    while not ended:
        check()
        seen = obs if normaliser is None else normaliser.normalize_obs(obs)
        extra = {"action_masks": masks()} if takes_masks and masks is not None else {}
        action, state = model.predict(seen, state=state, episode_start=first, deterministic=deterministic, **extra)
        obs, reward, terminated, truncated, _ = env.step(action)
        total, first, ended = total + float(reward), np.zeros(1, bool), bool(terminated or truncated)
    return total
