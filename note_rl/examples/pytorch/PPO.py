"""Proximal policy optimization with the manuals' order of arguments."""
# ruff: noqa: N999 (the manuals' name of the module)

from collections.abc import Sequence
from typing import Any

from note_rl.agents import pytorch as agents


class PPO(agents.PPO):
    """`note_rl.agents.pytorch.PPO` for an environment with discrete actions.

    Args:
        state_dim: Length of an observation; None: read from the environment, as action_dim.
        hidden_size: Width of the hidden layers.
        action_dim: Number of actions.
        clip: How far the probability ratio may leave 1.
        entropy_coef: Weight of the entropy bonus. (The manuals' 0.7 is so much that nothing is learned; 0.01 is usual.)
        **options: env, gamma, gae_lambda and all others of the agent.
    """

    def __init__(
        self,
        state_dim: int | None = None,
        hidden_size: int | Sequence[int] = (64, 64),
        action_dim: int | None = None,
        clip: float = 0.2,
        entropy_coef: float = 0.0,
        **options: Any,
    ) -> None:
        super().__init__(state_dim, hidden_size, action_dim, clip=clip, entropy_coef=entropy_coef, **options)
