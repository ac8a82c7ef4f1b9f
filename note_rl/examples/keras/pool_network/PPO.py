"""Proximal policy optimization in several environments side by side."""
# ruff: noqa: N999 (the manuals' name of the module)

from typing import Any

from note_rl.examples.keras.PPO import PPO as SinglePPO  # noqa: N811 (a class)
from note_rl.examples.side_by_side import side_by_side


class PPO(SinglePPO):
    """`note_rl.examples.keras.PPO` in `processes` environments; see there for the other arguments."""

    def __init__(
        self,
        state_dim: int | None = None,
        hidden_size: int = 128,
        action_dim: int | None = None,
        clip: float = 0.2,
        entropy_coef: float = 0.0,
        processes: int = 7,
        *,
        env: Any = "CartPole-v1",
        **options: Any,
    ) -> None:
        several = side_by_side(env, processes)
        super().__init__(state_dim, hidden_size, action_dim, clip, entropy_coef, env=several, **options)
