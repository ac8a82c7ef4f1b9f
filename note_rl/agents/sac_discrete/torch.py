"""Soft actor-critic for discrete actions in PyTorch (Christodoulou 2019, https://arxiv.org/abs/1910.07207)."""

import math

import torch
from torch import Tensor

from note_rl.agents.declaration import Given
from note_rl.agents.sac.torch import EntropyWeight
from note_rl.agents.sac_discrete import SACDiscreteSettings
from note_rl.agents.shared.spaces import discrete_spaces
from note_rl.agents.shared.torch.choices import where_allowed
from note_rl.agents.shared.torch.networks import evaluating, mlp, soft_update
from note_rl.learners.numpy_policy import DenseLayer, dense_layers_of
from note_rl.policy import Policy, SoftmaxPolicy
from note_rl.rl_pytorch import RL_pytorch


class SACDiscrete(SACDiscreteSettings, EntropyWeight, RL_pytorch):
    reads_triplets = False
    traceable = True

    def make_networks(self, given: Given) -> None:
        """An actor, two critics with a copy of each for targets, and the weight of the entropy."""
        spaces = discrete_spaces(self.env, type(self).__name__, given.state_dim, given.action_dim, self.frame_stack)
        make = given.network or mlp(given.hidden_size)
        make_critic = given.critic_network or make
        sizes = spaces.obs_shape, spaces.num_actions
        self.num_actions = spaces.num_actions
        self.actor = make(*sizes).to(given.device)
        self.critic_1, self.critic_2 = make_critic(*sizes).to(given.device), make_critic(*sizes).to(given.device)
        self.target_critic_1 = make_critic(*sizes).to(given.device).requires_grad_(False)
        self.target_critic_2 = make_critic(*sizes).to(given.device).requires_grad_(False)
        self._move_targets(1.0)
        self._make_alpha(given.device)
        critics = [*self.critic_1.parameters(), *self.critic_2.parameters()]
        self.param = [list(self.actor.parameters()), critics, *self._learned_alpha()]
        self.discount: Tensor

    def action(self, s: Tensor) -> Tensor:
        """Probabilities [B, A]."""
        f: Tensor = self.actor(s).softmax(-1)
        return f

    def __call__(self, s: Tensor, a: Tensor, next_s: Tensor, r: Tensor, d: Tensor) -> list[Tensor]:
        """Losses [B] of actor (eq. 12), critics (by eq. 10) and, where it is learned, log alpha (eq. 11)."""
        alpha = self.entropy_weight()
        with torch.no_grad():
            with evaluating(self.actor):
                next_log_f = where_allowed(self.actor(next_s), self.next_action_mask).log_softmax(-1)  # [B, A]
            next_q = torch.minimum(self.target_critic_1(next_s), self.target_critic_2(next_s))
            next_value = (next_log_f.exp() * (next_q - alpha * next_log_f)).sum(-1)
            target = r + self.discount * next_value  # [B]
        q_1, q_2 = self.critic_1(s), self.critic_2(s)  # [B, A]
        chosen = a.long()[:, None]
        q = q_1.gather(1, chosen).squeeze(1)
        error_1 = q - target
        error_2 = q_2.gather(1, chosen).squeeze(1) - target
        self.prioritized_replay.update(0.5 * (error_1.abs() + error_2.abs()).detach())
        log_f = where_allowed(self.actor(s), self.action_mask).log_softmax(-1)
        f = log_f.exp()
        actor_loss = (f * (alpha * log_f - torch.minimum(q_1, q_2).detach())).sum(-1)
        entropy = -(f * log_f).sum(-1)
        self.report(q_mean=q, entropy=entropy, alpha=alpha)
        losses = [actor_loss, error_1.square() + error_2.square()]
        return [*losses, *self._alpha_losses(entropy.detach() - self._entropy_wanted())]

    def _entropy_wanted(self) -> Tensor | float:
        """Of the policy in each state [B], or in all of them."""
        if self.action_mask is None:
            return self.target_entropy_ratio * math.log(self.num_actions)
        wanted: Tensor = self.target_entropy_ratio * self.action_mask.sum(-1).log()
        return wanted

    def update_param(self) -> None:
        """Moves the targets towards the online critics."""
        self._move_targets(self.tau)

    def _move_targets(self, tau: float) -> None:
        soft_update(self.target_critic_1, self.critic_1, tau)
        soft_update(self.target_critic_2, self.critic_2, tau)

    def default_policy(self) -> Policy:
        """Until set() says otherwise."""
        return SoftmaxPolicy()

    def acting_layers(self) -> list[DenseLayer] | None:
        """The actor's layers, if it consists of dense ones."""
        return dense_layers_of(self.actor, "softmax")
