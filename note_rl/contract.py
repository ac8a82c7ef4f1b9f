"""What an agent must bring along, checked when it is first used: its parts, and the shape of its answers."""

from typing import Any

import numpy as np

from note_rl.errors import AgentContractError
from note_rl.policy import Policy
from note_rl.types import FloatArray

_PARTS = {
    "env": "the environment: self.env = 'CartPole-v1', for example",
    "param": "its weights: self.param = list(self.net.parameters()), or self.net.trainable_variables in Keras",
    "action": "the answers to observations: define action(self, s)",
    "__call__": "the loss: define __call__(self, s, a, next_s, r, d)",
}


def check_made(agent: Any) -> None:
    """Refuses an agent whose constructor did not call that of its base class (AgentContractError)."""
    if "prioritized_replay" not in vars(agent):
        name = type(agent).__name__
        raise AgentContractError(f"{name}.__init__ must call super().__init__() before anything else")


def check_parts(agent: Any) -> None:
    """Refuses an agent that lacks a part (AgentContractError names it)."""
    check_made(agent)
    for name, meaning in _PARTS.items():
        if not callable(agent) if name == "__call__" else getattr(agent, name, None) is None:
            raise AgentContractError(f"{type(agent).__name__} lacks {name}, {meaning}")


def check_answers(answers: FloatArray, num_envs: int, policy: Policy, action_space: Any) -> None:
    """Refuses answers that are not one row per observation, as wide as the policy takes them.

    Args:
        answers: To observations of so many environments; [E, ...], or [E, n, ...] of several agents.
        num_envs: E.
        policy: Chooses from them; knows of nothing how wide it must be where it is made of several.
        action_space: Of one environment.

    Raises:
        AgentContractError: Naming both widths.
    """
    if answers.ndim < 2 or len(answers) != num_envs:
        raise AgentContractError(
            f"action() must return one row per observation, [{num_envs}, ...] here; it returned the shape "
            f"{list(answers.shape)}: scores of all actions, or the numbers of an action, not the action chosen"
        )
    expected = policy.num_answers(action_space)
    width = int(np.prod(answers.shape[1:]))
    if expected is None or width == expected:
        return
    hint = ""
    if width == 2 * expected:
        hint = "; for means and log deviations take GaussianPolicy(), or SquashedGaussianPolicy(noise) as for SAC"
    raise AgentContractError(
        f"action() returned {width} numbers per observation (the shape {list(answers.shape)}), but {expected} are what "
        f"{type(policy).__name__} takes for the actions {action_space}{hint}"
    )
