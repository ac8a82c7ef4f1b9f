"""From observations to the agent's answers, whatever lies between: normalisation, several agents."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

import numpy as np

from note_rl.environments.normalise import ObservationNormaliser
from note_rl.learners.declarations import is_recurrent
from note_rl.learners.recurrence import RecurrentState
from note_rl.policy import Policy
from note_rl.tree_search.simulators import masks_refused
from note_rl.types import Array, BoolArray, FloatArray

Act = Callable[[Array], FloatArray]
Answers = Callable[[Array, BoolArray], FloatArray]
"""(observations [E, *obs], which are the first of their episode [E]) -> answers [E, ...]."""


class ActingLearner(Protocol):
    """The part of a `Learner` that acting needs."""

    def act(
        self, obs: Array, state: RecurrentState | None = None, episode_start: BoolArray | None = None
    ) -> FloatArray:
        """Answers [E, ...] of the agent to observations [E, *obs]; see `note_rl.learners.base.Learner.act`."""

    def act_one(self, obs: Array, agent_index: int) -> FloatArray:
        """Answers [E, ...] of one agent among several."""

    def act_with(self, obs: Array, noise: FloatArray) -> FloatArray:
        """Answers [E, ...] with noise [E, F]; see `Declared.acting_noise`."""


def answers_of(act: Act, state: RecurrentState, rng: np.random.Generator | None = None) -> Answers:
    """Returns how to ask for answers, given which observations begin an episode.

    Args:
        act: A `PolicyRunner`, or any function.
        state: Of the environments, which is kept here from step to step if the agent is recurrent.
        rng: Draws the noise of an agent that explores by that (`Declared.acting_noise`, `Declared.searches_ahead`),
            anew for each answer; None: there is no noise.
    """
    if not isinstance(act, PolicyRunner):
        return lambda obs, starts: act(obs)
    if act.is_recurrent:
        return lambda obs, starts: act(obs, state, starts)
    if rng is not None and act.num_noise:
        return lambda obs, starts: act.explore(obs, rng)
    agent = getattr(act.learner, "agent", None)
    if rng is not None and getattr(agent, "searches_ahead", False):
        return lambda obs, starts: _explored(act, agent, rng, obs)
    return lambda obs, starts: act(obs)


def masked_answers(act: Act, policy: Policy, answers: FloatArray, mask: BoolArray | None) -> FloatArray:
    """Returns answers in which the policy finds no action that a mask forbids.

    Args:
        act: What has given the answers.
        policy: Chooses by them.
        answers: As `answers_of` gives them. [E, ...]
        mask: Which actions are allowed; None: all. [E, A]

    Raises:
        EnvironmentMismatchError: There is a mask, and the agent searches ahead, where it would not be heeded.
    """
    if mask is None:
        return answers
    agent = getattr(act.learner, "agent", None) if isinstance(act, PolicyRunner) else None
    if getattr(agent, "searches_ahead", False):
        raise masks_refused(type(agent).__name__, "a mask")
    return policy.masked(answers, mask)


def _explored(act: Act, agent: Any, exploration: np.random.Generator, obs: Array) -> FloatArray:
    """Returns the answers of an agent that draws random numbers for them."""
    agent.exploration = exploration
    try:
        return act(obs)
    finally:
        agent.exploration = None


SomeLearner = TypeVar("SomeLearner", bound=ActingLearner)


@dataclass(frozen=True)
class PolicyRunner(Generic[SomeLearner]):
    """Answers [E, ...] to observations [E, *obs] as the environments show them.

    With several agents these are [E, n, ...] and [E, n, *obs], and each agent is asked on its own.
    """

    learner: SomeLearner
    normaliser: ObservationNormaliser
    multi_agent: bool = False

    @property
    def is_recurrent(self) -> bool:
        """Whether answers depend on a state, which then comes with each call."""
        return is_recurrent(getattr(self.learner, "agent", None))

    @property
    def num_noise(self) -> int:
        """Normal numbers that the agent draws on for one observation while it explores; 0: it draws none."""
        return int(getattr(getattr(self.learner, "agent", None), "acting_noise", 0))

    def explore(self, obs: Array, rng: np.random.Generator) -> FloatArray:
        """The answers of an agent with noise in its networks, other noise for each environment."""
        noise = rng.standard_normal((len(obs), self.num_noise), np.float32)
        return self.learner.act_with(self.normaliser(obs), noise)

    def __call__(
        self, obs: Array, state: RecurrentState | None = None, episode_start: BoolArray | None = None
    ) -> FloatArray:
        """The answers.

        Args:
            obs: What the environments show. [E, *obs]
            state: Of a recurrent agent; changed here. See `note_rl.learners.declarations.Declared.initial_state`.
            episode_start: Which observations are the first of their episode. [E]
        """
        seen = self.normaliser(obs)
        if not self.multi_agent:
            return self.learner.act(seen) if state is None else self.learner.act(seen, state, episode_start)
        return np.stack([self.learner.act_one(seen[:, i], i) for i in range(seen.shape[1])], axis=1)
