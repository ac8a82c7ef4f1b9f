"""How an agent acts where it is evaluated or shown: without exploration, exploring, or with some random actions."""

import copy
from typing import Any, Final, Literal

import numpy as np

from note_rl.adaptive.scheduled import ScheduledValues, owners
from note_rl.collect.acting import PolicyRunner
from note_rl.collect.evaluation import ActingIn, random_actions
from note_rl.environments.frames import FrameStack
from note_rl.policy import exploration
from note_rl.types import Array, BoolArray
from tuner.runs.build import TrainableAgent

ActingPolicy = Literal["greedy", "sampled", "eps"]
ACTING_POLICIES: Final = ("greedy", "sampled", "eps")


def acting_by(agent: TrainableAgent, policy: ActingPolicy, eps: float, seed: int) -> ActingIn | None:
    """How an agent is to act.

    Args:
        agent: That acts; one that is trained goes on undisturbed.
        policy: "greedy": without exploration. "sampled": exploring, as at the end of training. "eps": without
            exploration, but for a share of random actions (Mnih et al. 2015), by which episodes of an environment
            without randomness differ.
        eps: That share.
        seed: Of the exploration.

    Returns:
        From an action space to how to act there; None: as the agent is evaluated where nothing is said.
    """
    if policy == "sampled":
        return lambda space: Exploring(agent, space, np.random.default_rng(seed))
    if policy == "eps":
        return lambda space: WithRandomActions(agent, space, eps, seed)
    return None


class Exploring:
    """Acts as in training, at the end of the schedules of its policy.

    Args:
        agent: Whose policy is copied.
        action_space: Of one environment.
        rng: Of exploration.
    """

    def __init__(self, agent: TrainableAgent, action_space: Any, rng: np.random.Generator) -> None:
        settings = agent.settings
        self._agent, self._action_space, self._rng = agent, action_space, rng
        self._policy = copy.deepcopy(exploration(settings.policy, None, per_agent=settings.multi_agent))
        agent.learner.actor.parameters_changed()  # by anybody, since it acted last
        self._act = PolicyRunner(agent.learner, agent.obs_normaliser, settings.multi_agent)
        self._frames = FrameStack(settings.experience.frame_stack)
        self._is_bound = False

    def __call__(self, obs: Array, starts: BoolArray) -> Array:
        """Actions [E] or [E, A] for observations [E, *obs]; `starts` [E]: which are the first of their episode."""
        if not self._is_bound:
            self._bind(len(obs))
        self._policy.reset(np.flatnonzero(starts))
        answers = self._act(self._frames.show(obs, starts))
        return self._policy.for_env(self._policy.select(answers, self._rng))

    def _bind(self, num_envs: int) -> None:
        self._policy.bind(self._action_space, num_envs)
        schedules = self._agent.settings.schedules
        of_the_policy = {name: schedule for name, schedule in schedules.items() if owners(self._policy, name)}
        ScheduledValues(of_the_policy, self._policy, self._agent).move_to(1.0)
        if hasattr(self._policy, "num_random_steps"):
            self._policy.num_random_steps = 0  # these were at the beginning
        self._is_bound = True


class WithRandomActions:
    """Acts without exploration, but for a share of uniformly random actions.

    Args:
        agent: That acts.
        action_space: Of one environment.
        eps: The share, each environment by itself.
        seed: Of what is random.
    """

    def __init__(self, agent: TrainableAgent, action_space: Any, eps: float, seed: int) -> None:
        self._greedy = agent.greedy_in(action_space)
        self._random = random_actions(action_space, seed)
        self._eps = eps
        self._rng = np.random.default_rng(seed)

    def __call__(self, obs: Array, starts: BoolArray) -> Array:
        """Actions [E] or [E, A] for observations [E, *obs]; `starts` [E]: which are the first of their episode."""
        actions = np.array(self._greedy(obs, starts))
        drawn = self._rng.random(len(obs)) < self._eps
        if drawn.any():
            actions[drawn] = self._random(obs)[drawn]
        return actions
