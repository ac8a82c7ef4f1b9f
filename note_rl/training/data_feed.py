"""Data for training: steps of environments come in, minibatches go out."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from note_rl.collect.policy_runner import PolicyRunner
from note_rl.collect.step_join import joined, shares_of_ends
from note_rl.learners.base import Learner
from note_rl.replay.experience import Clock
from note_rl.training.normal_inputs import with_normal_inputs
from note_rl.training.state import TrainingState
from note_rl.types import Episode, Sample, Steps, Update


@dataclass(frozen=True)
class Round:
    """One round of collecting.

    Attributes:
        num_env_steps: Of all environments together.
        ends: The episodes that have ended in it, in order, each behind how far the round had got by then (1: its end).
    """

    num_env_steps: int
    ends: list[tuple[float, Episode]]


class Feed:
    """Collects in the environments, and draws from what they gave.

    Args:
        agent: Who acts and learns.
        state: Holds environments, experience and random numbers.
        act: Answers observations.
    """

    def __init__(self, agent: Any, state: TrainingState, act: PolicyRunner[Learner]) -> None:
        self.state = state
        self._agent = agent
        self._act = act
        self._rounds: list[Steps] = []  # of this iteration, until they are stored
        self._stored: Steps | None = None  # of this iteration
        self._is_cut = False  # whether steps were taken that are in none of these

    def settle(self) -> None:
        """Stores what an exception has left of the last training run, and marks what it has cut off."""
        if self._rounds:
            self.store()
        if self._is_cut:
            self.state.experience.interrupt()
        self._stored, self._is_cut = None, False

    def begin(self) -> None:
        """Called before a training run."""
        self.settle()
        if not self.state.collector.begin(self._act):
            self.state.experience.interrupt()

    @property
    def is_pending(self) -> bool:
        """Whether steps were taken that are not stored."""
        return bool(self._rounds) or self._is_cut

    def end(self, goes_on: bool) -> None:
        """Called after a training run; see `Collecting.end`."""
        self.state.collector.end(goes_on)

    def collect(self, remaining: int | None) -> Round:
        """Collects a round of this iteration.

        Args:
            remaining: Environment steps, of all environments, that are left of the budget; None: there is no end.
        """
        collector, experience = self.state.collector, self.state.experience
        length = experience.phase_length(collector.num_envs, remaining, self._rounds)
        self._is_cut = True
        steps, episodes = collector.collect(self._act, length)
        self._rounds.append(steps)
        self._is_cut = False
        ends = zip(shares_of_ends(steps, len(episodes)), episodes, strict=True)
        return Round(steps.num_env_steps, list(ends))

    def store(self) -> None:
        """Adds the rounds of this iteration to what is drawn from."""
        rounds, self._rounds = self._rounds, []
        was_cut, self._is_cut = self._is_cut, True
        steps, normaliser = joined(rounds), self.state.reward_normaliser
        if normaliser is not None:
            normaliser.update(steps, float(getattr(self._agent, "gamma", 1.0)))
        self.state.experience.store(steps, len(rounds))
        self._stored, self._is_cut = steps, was_cut

    def update_blocks(self, clock: Clock) -> Iterator[Sample]:
        """The minibatches of this iteration; see `Experience.update_blocks`."""
        for drawn in self.state.experience.update_blocks(clock):
            yield with_normal_inputs(drawn, self._agent, self.state.sampling)

    def feedback(self, sample: Sample, update: Update) -> None:
        """Takes the results of an update block; see `Experience.feedback`."""
        self.state.experience.feedback(sample, update)

    def end_iteration(self) -> None:
        """Observations are normalised by these as well, but only now: the same way for the whole iteration."""
        steps, self._stored = self._stored, None
        if self.state.settings.normalise_obs and steps is not None:
            self._agent.obs_normaliser.update(steps.obs)
