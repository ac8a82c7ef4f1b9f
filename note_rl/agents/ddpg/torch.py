"""Deep deterministic policy gradient in PyTorch (Lillicrap et al. 2016, https://arxiv.org/abs/1509.02971)."""

import torch
from torch import Tensor

from note_rl.agents.ddpg import DDPGSettings
from note_rl.agents.declaration import Given
from note_rl.agents.shared.spaces import continuous_spaces
from note_rl.agents.shared.torch.networks import QNetwork, TanhActor, mlp, soft_update
from note_rl.learners.numpy_policy import DenseLayer
from note_rl.rl_pytorch import RL_pytorch


class DDPG(DDPGSettings, RL_pytorch):
    reads_triplets = False
    traceable = True

    def make_networks(self, given: Given) -> None:
        """The online networks, and a copy of each for targets."""
        spaces = continuous_spaces(self.env, "DDPG", self.frame_stack)
        make = given.network or mlp(given.hidden_size)
        make_critic = given.critic_network or make
        self.actor = TanhActor(make, spaces).to(given.device)
        self.critic = QNetwork(make_critic, spaces).to(given.device)
        self.target_actor = TanhActor(make, spaces).to(given.device).requires_grad_(False)
        self.target_critic = QNetwork(make_critic, spaces).to(given.device).requires_grad_(False)
        soft_update(self.target_actor, self.actor, 1.0)
        soft_update(self.target_critic, self.critic, 1.0)
        self.param = [list(self.actor.parameters()), list(self.critic.parameters())]
        self.discount: Tensor

    def action(self, s: Tensor) -> Tensor:
        """Actions [B, A]."""
        a: Tensor = self.actor(s)
        return a

    def __call__(self, s: Tensor, a: Tensor, next_s: Tensor, r: Tensor, d: Tensor) -> list[Tensor]:
        """Losses [B] of actor and critic: -Q(s, mu(s)), and (Q(s, a) - r - discount * Q'(s', mu'(s')))^2."""
        with torch.no_grad():
            target = r + self.discount * self.target_critic(next_s, self.target_actor(next_s))  # [B]
        q = self.critic(s, a)
        error = q - target
        self.prioritized_replay.update(error.detach())
        self.report(q_mean=q)
        return [-self.critic(s, self.actor(s)), error.square()]

    def update_param(self) -> None:
        """Moves the targets towards the online networks."""
        soft_update(self.target_actor, self.actor, self.tau)
        soft_update(self.target_critic, self.critic, self.tau)

    def acting_layers(self) -> list[DenseLayer] | None:
        """The actor's layers, if its network consists of dense ones."""
        return self.actor.dense_layers()
