"""The manuals' agents: their order of arguments and their defaults, once for both frameworks.

Each class stands before an agent among the bases of a class of the manuals, as in `class PPO(ManualPPO, agents.PPO)`,
and hands on to it what it was given.
"""

from collections.abc import Callable, Sequence
from typing import Any

from note_rl.examples.coordination import CoordinationGame
from note_rl.examples.side_by_side import side_by_side
from note_rl.support.value_kinds import NOT_NEGATIVE


class SideBySideDQN:
    """DQN in several environments.

    Args:
        state_dim: Length of an observation; None: read from the environment, as action_dim.
        hidden_size: Width of the hidden layers.
        action_dim: Number of actions.
        processes: Environments stepped side by side.
        env: What each of them is.
        **options: All others of the agent.
    """

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
        super().__init__(state_dim, hidden_size, action_dim, env=side_by_side(env, processes), **options)  # type: ignore[call-arg]  # the agent's


class ManualPPO:
    """PPO for an environment with discrete actions.

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
        super().__init__(state_dim, hidden_size, action_dim, clip=clip, entropy_coef=entropy_coef, **options)  # type: ignore[call-arg]


class SideBySidePPO(ManualPPO):
    """The same in several environments.

    Args:
        state_dim, hidden_size, action_dim, clip, entropy_coef: As above.
        processes: Environments stepped side by side.
        env: What each of them is.
        **options: All others of the agent.
    """

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


class ManualDDPG:
    """DDPG for tasks with a goal.

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

    adam: Callable[..., Any]
    param: Any

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
        super().__init__(hidden_size, env=side_by_side(env, processes), gamma=gamma, tau=tau, **options)  # type: ignore[call-arg]
        self.optimizer = [self.adam(group, lr) for group in self.param]


class ManualMADDPG(ManualDDPG):
    """Multi-agent DDPG with two optimizers, one for all actors and one for all critics.

    Args:
        hidden_size, tau, gamma, lr, processes: As for one agent.
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
        super().__init__(hidden_size, tau, gamma, lr, processes, env=env, grouped=True, **options)


class ManualAlphaZero:
    """AlphaZero in CartPole.

    The older library has other defaults: more simulations for each action, c_puct 2.0, and one wider trunk of ReLUs for
    policy and value, in place of two networks of tanh.

    Args:
        env_name: Id of the environment.
        **options: num_simulations, c_puct and all others of the agent.
    """

    temperature: float

    def __init__(self, env_name: str = "CartPole-v1", **options: Any) -> None:
        super().__init__(**{"env": env_name, **options})

    @property
    def mcts_temp(self) -> float:
        """The temperature, under the manuals' name."""
        return self.temperature

    @mcts_temp.setter
    def mcts_temp(self, value: float) -> None:
        self.temperature = NOT_NEGATIVE("mcts_temp", value)


class SideBySideAlphaZero(ManualAlphaZero):
    """The same in several environments.

    Args:
        processes: Environments stepped side by side.
        env_name: Id of each of them.
        **options: num_simulations, c_puct and all others of the agent.
    """

    def __init__(self, processes: int = 7, env_name: str = "CartPole-v1", **options: Any) -> None:
        super().__init__(**{"env": side_by_side(env_name, processes), **options})
