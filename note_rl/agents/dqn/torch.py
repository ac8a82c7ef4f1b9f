"""Deep Q-network in PyTorch (Mnih et al. 2015, https://doi.org/10.1038/nature14236)."""

import torch
from torch import Tensor, nn

from note_rl.agents.declaration import Given
from note_rl.agents.dqn import DQNSettings
from note_rl.agents.shared.spaces import discrete_spaces
from note_rl.agents.shared.torch.choices import where_allowed
from note_rl.agents.shared.torch.networks import mlp, soft_update
from note_rl.learners.numpy_policy import DenseLayer, dense_layers_of
from note_rl.rl_pytorch import RL_pytorch


class DQN(DQNSettings, RL_pytorch):
    reads_triplets = False
    traceable = True

    def make_networks(self, given: Given) -> None:
        """The online network, and a copy for targets."""
        spaces = discrete_spaces(self.env, type(self).__name__, given.state_dim, given.action_dim, self.frame_stack)
        make = given.network or mlp(given.hidden_size)
        self.q_net = make(spaces.obs_shape, spaces.num_actions).to(given.device)
        self.target_q_net = make(spaces.obs_shape, spaces.num_actions).to(given.device).requires_grad_(False)
        soft_update(self.target_q_net, self.q_net, 1.0)
        self.param = list(self.q_net.parameters())
        self.discount: Tensor

    def action(self, s: Tensor) -> Tensor:
        """Q-values [B, A]."""
        q: Tensor = self.q_net(s)
        return q

    def next_value(self, next_s: Tensor) -> Tensor:
        """Values of the next states [B]: max_a Q_target(s', a), of the actions allowed there."""
        q: Tensor = self.target_q_net(next_s)
        return where_allowed(q, self.next_action_mask).amax(1)

    def __call__(self, s: Tensor, a: Tensor, next_s: Tensor, r: Tensor, d: Tensor) -> Tensor:
        """Huber loss [B] between Q(s, a) and r + discount * next_value(s')."""
        with torch.no_grad():
            target = r + self.discount * self.next_value(next_s)  # [B]
        q = self.q_net(s).gather(1, a.unsqueeze(1)).squeeze(1)  # [B]
        self.prioritized_replay.update(target - q.detach())
        self.report(q_mean=q)
        return nn.functional.smooth_l1_loss(q, target, reduction="none")

    def update_param(self) -> None:
        """Moves the target network towards the online one."""
        soft_update(self.target_q_net, self.q_net, self.tau)

    def acting_layers(self) -> list[DenseLayer] | None:
        """The online network's layers, if it consists of dense ones."""
        return dense_layers_of(self.q_net)
