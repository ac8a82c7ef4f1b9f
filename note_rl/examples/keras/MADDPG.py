"""Multi-agent deep deterministic policy gradient under the manuals' name, which is DDPG."""
# ruff: noqa: N999 (the manuals' name of the module)

from typing import Any

from note_rl.agents import keras as agents
from note_rl.examples.coordination import CoordinationGame
from note_rl.examples.side_by_side import side_by_side
from note_rl.optimizers import keras as optimizers


class DDPG(agents.MADDPG):
    """`note_rl.agents.keras.MADDPG` with the manuals' order of arguments.

    Args:
        hidden_size: Width of the two hidden layers.
        tau: Share of the online parameters taken over at each target update.
        gamma: Discount of one step.
        lr: Learning rate of the Adam optimizers that train() uses if it is given none.
        processes: Environments stepped side by side; None: one.
        env: A PettingZoo parallel environment, a list-style one or a factory; by default our coordination game.
        **options: All others of the agent.
    """

    def __init__(
        self,
        hidden_size: int = 128,
        tau: float = 0.005,
        gamma: float = 0.98,
        lr: float = 1e-3,
        processes: int | None = None,
        *,
        env: Any = CoordinationGame,
        **options: Any,
    ) -> None:
        super().__init__(hidden_size, env=side_by_side(env, processes), gamma=gamma, tau=tau, grouped=True, **options)
        self.optimizer = [optimizers.adam(group, lr) for group in self.param]
