"""Deep Q-network in PyTorch (Mnih et al. 2015, https://doi.org/10.1038/nature14236)."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from note_rl.agents.pytorch.networks import MLP, MakeNetwork, soft_update
from note_rl.agents.spaces import discrete_spaces
from note_rl.environments import EnvLike
from note_rl.learners.mirror import DenseLayer
from note_rl.rl_pytorch import RL_pytorch


class DQN(RL_pytorch):
    """Q-learning with a replay pool and a target network, for discrete actions.

    Args:
        state_dim: Length of an observation; None: read from the environment, as action_dim.
        hidden_size: Width of the hidden layers, one number or one per layer; a single number means two layers.
        action_dim: Number of actions.
        env: Environment, id, list or factory.
        network: Makes a network from (observation shape, number of outputs); None: an `MLP` of `hidden_size`.
        gamma: Discount of one step.
        tau: Share of the online parameters taken over at each target update; 1 copies.
        device: Where the networks live.
    """

    def __init__(
        self,
        state_dim: int | None = None,
        hidden_size: int | Sequence[int] = (64, 64),
        action_dim: int | None = None,
        *,
        env: EnvLike = "CartPole-v1",
        network: MakeNetwork | None = None,
        gamma: float = 0.99,
        tau: float = 1.0,
        device: str = "cpu",
    ) -> None:
        super().__init__()
        spaces = discrete_spaces(env, "DQN", state_dim, action_dim)
        hidden = (hidden_size, hidden_size) if isinstance(hidden_size, int) else hidden_size
        make = network or (lambda shape, outputs: MLP(shape, outputs, hidden))
        self.env = env
        self.gamma = gamma
        self.tau = tau
        self.q_net = make(spaces.obs_shape, spaces.num_actions).to(device)
        self.target_q_net = make(spaces.obs_shape, spaces.num_actions).to(device).requires_grad_(False)
        soft_update(self.target_q_net, self.q_net, 1.0)
        self.param = list(self.q_net.parameters())
        self.discount: Tensor

    def action(self, s: Tensor) -> Tensor:
        """Q-values [B, A]."""
        q: Tensor = self.q_net(s)
        return q

    def __call__(self, s: Tensor, a: Tensor, next_s: Tensor, r: Tensor, d: Tensor) -> Tensor:
        """Huber loss [B] between Q(s, a) and r + discount * max_a' Q_target(s', a')."""
        with torch.no_grad():
            target = r + self.discount * self.target_q_net(next_s).amax(1)  # [B]
        q = self.q_net(s).gather(1, a[:, None])[:, 0]  # [B]
        return nn.functional.smooth_l1_loss(q, target, reduction="none")

    def update_param(self) -> None:
        """Moves the target network towards the online one."""
        soft_update(self.target_q_net, self.q_net, self.tau)

    def acting_layers(self) -> list[DenseLayer] | None:
        """The online network's layers, if it is an `MLP`."""
        return self.q_net.dense_layers() if isinstance(self.q_net, MLP) else None
