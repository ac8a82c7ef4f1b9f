"""Twin delayed deep deterministic policy gradient in PyTorch (Fujimoto et al. 2018, https://arxiv.org/abs/1802.09477)."""

import torch
from torch import Tensor

from note_rl.agents.declaration import Given
from note_rl.agents.shared.spaces import continuous_spaces
from note_rl.agents.shared.torch.networks import QNetwork, TanhActor, mlp, soft_update
from note_rl.agents.td3 import TD3Settings
from note_rl.learners.numpy_policy import DenseLayer
from note_rl.rl_pytorch import RL_pytorch


class TD3(TD3Settings, RL_pytorch):
    reads_triplets = False
    traceable = True

    def make_networks(self, given: Given) -> None:
        """The online networks, and a copy of each for targets."""
        spaces = continuous_spaces(self.env, "TD3", self.frame_stack)
        make = given.network or mlp(given.hidden_size)
        make_critic = given.critic_network or make
        self.actor = TanhActor(make, spaces).to(given.device)
        self.critic_1 = QNetwork(make_critic, spaces).to(given.device)
        self.critic_2 = QNetwork(make_critic, spaces).to(given.device)
        self.target_actor = TanhActor(make, spaces).to(given.device).requires_grad_(False)
        self.target_critic_1 = QNetwork(make_critic, spaces).to(given.device).requires_grad_(False)
        self.target_critic_2 = QNetwork(make_critic, spaces).to(given.device).requires_grad_(False)
        self._move_targets(1.0)
        self.param = [
            list(self.actor.parameters()),
            [*self.critic_1.parameters(), *self.critic_2.parameters()],
        ]
        self.normal_inputs = {"next_noise": (spaces.action_size,)}
        self.next_noise: Tensor
        self.discount: Tensor

    def action(self, s: Tensor) -> Tensor:
        """Actions [B, A]."""
        a: Tensor = self.actor(s)
        return a

    def _smoothed_target_action(self, next_s: Tensor) -> Tensor:
        """mu'(s') plus clipped noise, within the bounds [B, A] (eq. 14)."""
        noise = (self.next_noise * self.target_noise).clamp(-self.noise_clip, self.noise_clip)
        centre, scale = self.target_actor.centre, self.target_actor.scale
        a = self.target_actor(next_s) + noise * scale
        return torch.clamp(a, centre - scale, centre + scale)

    def __call__(self, s: Tensor, a: Tensor, next_s: Tensor, r: Tensor, d: Tensor) -> list[Tensor]:
        """Losses [B] of actor, -Q_1(s, mu(s)), and critics, the sum of both squared errors."""
        with torch.no_grad():
            next_a = self._smoothed_target_action(next_s)
            next_q = torch.minimum(self.target_critic_1(next_s, next_a), self.target_critic_2(next_s, next_a))
            target = r + self.discount * next_q  # [B]
        q = self.critic_1(s, a)
        error_1 = q - target
        error_2 = self.critic_2(s, a) - target
        self.prioritized_replay.update(0.5 * (error_1.abs() + error_2.abs()).detach())
        self.report(q_mean=q)
        return [-self.critic_1(s, self.actor(s)), error_1.square() + error_2.square()]

    def update_param(self) -> None:
        """Moves the targets towards the online networks."""
        self._move_targets(self.tau)

    def _move_targets(self, tau: float) -> None:
        soft_update(self.target_actor, self.actor, tau)
        soft_update(self.target_critic_1, self.critic_1, tau)
        soft_update(self.target_critic_2, self.critic_2, tau)

    def acting_layers(self) -> list[DenseLayer] | None:
        """The actor's layers, if its network consists of dense ones."""
        return self.actor.dense_layers()
