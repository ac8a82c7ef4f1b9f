"""How an agent acts where it is evaluated or shown: without exploration, exploring, or with some random actions."""

from collections.abc import Callable
from functools import wraps
from typing import Any, Literal

import numpy as np

from note_rl.collect.evaluation import ActingIn, Choose, random_actions
from note_rl.collect.predictor import Exploring
from note_rl.types import Array, BoolArray
from tuner.runs.build import TrainableAgent

ActingPolicy = Literal["greedy", "sampled", "eps"]


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


def checking(acting_in: ActingIn, check: Callable[[], None]) -> ActingIn:
    """The same way to act, with a call of `check` before each step: an episode may take long, or never end."""

    def checked_in(space: Any) -> Choose:
        choose = acting_in(space)

        @wraps(choose)  # whether it takes masks is seen by its signature
        def checked(*shown: Any) -> Array:
            check()
            return choose(*shown)

        return checked

    return checked_in


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

    def __call__(self, obs: Array, starts: BoolArray, action_mask: BoolArray | None = None) -> Array:
        """Actions [E] or [E, A]; see `note_rl.collect.evaluation.Greedy` for the arguments."""
        actions = np.array(self._greedy(obs, starts, action_mask))
        drawn = self._rng.random(len(obs)) < self._eps
        if drawn.any():
            actions[drawn] = self._random(obs, action_mask)[drawn]
        return actions
