"""Deep Q-network in several environments side by side."""
# ruff: noqa: N999 (the manuals' name of the module)

from typing import Any

from note_rl.agents import pytorch as agents
from note_rl.examples.side_by_side import side_by_side


class DQN(agents.DQN):
    """`note_rl.agents.pytorch.DQN` in `processes` environments; see there for the other arguments."""

    def __init__(
        self,
        state_dim: int | None = None,
        hidden_size: int = 128,
        action_dim: int | None = None,
        processes: int = 7,
        *,
        env: Any = "CartPole-v1",
        **options: Any,
    ) -> None:
        super().__init__(state_dim, hidden_size, action_dim, env=side_by_side(env, processes), **options)
