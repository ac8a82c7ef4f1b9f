"""Deep deterministic policy gradient for tasks with a goal under the manuals' name, which is DDPG."""
# ruff: noqa: N999 (the manuals' name of the module)

from typing import Any

from note_rl.agents import pytorch as agents
from note_rl.examples.side_by_side import side_by_side
from note_rl.optimizers import pytorch as optimizers


class DDPG(agents.DDPG):
    """`note_rl.agents.pytorch.DDPG` with the manuals' order of arguments.

    Args:
        hidden_size: Width of the two hidden layers.
        tau: Share of the online parameters taken over at each target update.
        gamma: Discount of one step.
        lr: Learning rate of the Adam optimizers that train() uses if it is given none.
        processes: Environments stepped side by side; None: one.
        env: The task; by default a point that has to reach a goal in the plane. The manuals' robot arm is
            env="FetchReach-v4" with gymnasium-robotics installed.
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
        env: Any = "note_rl.examples.environments:PointReach-v0",
        **options: Any,
    ) -> None:
        super().__init__(hidden_size, env=side_by_side(env, processes), gamma=gamma, tau=tau, **options)
        self.optimizer = [optimizers.adam(group, lr) for group in self.param]
