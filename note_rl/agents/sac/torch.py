"""Soft actor-critic in PyTorch (Haarnoja et al. 2018, https://arxiv.org/abs/1812.05905)."""

import math

import torch
from torch import Tensor
from torch.nn.functional import softplus

from note_rl.agents.declaration import Given
from note_rl.agents.sac import SACSettings
from note_rl.agents.shared.spaces import continuous_spaces
from note_rl.agents.shared.torch.networks import QNetwork, evaluating, mlp, soft_update
from note_rl.agents.shared.torch.numbers import ByState
from note_rl.learners.numpy_policy import DenseLayer, dense_layers_of
from note_rl.policy import Policy, SquashedGaussianPolicy, SquashedGSDEPolicy
from note_rl.policy.continuous import LOG_STD_RANGE
from note_rl.rl_pytorch import RL_pytorch


class SAC(SACSettings, RL_pytorch):
    reads_triplets = False
    traceable = True

    def make_networks(self, given: Given) -> None:
        """An actor, two critics with a copy of each for targets, and the weight of the entropy."""
        spaces = continuous_spaces(self.env, "SAC", self.frame_stack)
        make = given.network or mlp(given.hidden_size)
        make_critic = given.critic_network or make
        self.entropy_wanted = -float(spaces.action_size) if self.target_entropy is None else self.target_entropy
        self.centre = torch.from_numpy(spaces.centre).to(given.device)
        self.scale = torch.from_numpy(spaces.scale).to(given.device)
        self.spread = None if self.gsde is None else ByState(spaces.action_size, self.gsde)
        self.actor = make(spaces.obs_shape, spaces.action_size * (2 if self.spread is None else 1))
        learned = []
        if self.spread is not None:
            log_std = self.spread.start(self.actor, spaces.action_size, self.initial_log_std)
            self.log_std = log_std.to(given.device).requires_grad_()
            self.actor = self.spread.network(self.actor)
            learned = [self.log_std]
        self.actor = self.actor.to(given.device)
        self.critic_1 = QNetwork(make_critic, spaces).to(given.device)
        self.critic_2 = QNetwork(make_critic, spaces).to(given.device)
        self.target_critic_1 = QNetwork(make_critic, spaces).to(given.device).requires_grad_(False)
        self.target_critic_2 = QNetwork(make_critic, spaces).to(given.device).requires_grad_(False)
        self._move_targets(1.0)
        start = math.log(self.initial_alpha if self.alpha is None else self.alpha)
        self.log_alpha = torch.full((1,), start, device=given.device)
        actor = [*self.actor.parameters(), *learned]
        self.param = [actor, [*self.critic_1.parameters(), *self.critic_2.parameters()]]
        if self.alpha is None:
            self.param.append([self.log_alpha.requires_grad_()])
        self.normal_inputs = {"noise": (spaces.action_size,), "next_noise": (spaces.action_size,)}
        self.noise: Tensor
        self.next_noise: Tensor
        self.discount: Tensor

    def action(self, s: Tensor) -> Tensor:
        """Means and log deviations before tanh, [B, 2A]; with `gsde` what `ByState.answers` says."""
        scores: Tensor = self.actor(s)
        return scores if self.spread is None else self.spread.answers(scores, self.log_std)

    def _mean_and_log_std(self, s: Tensor) -> tuple[Tensor, Tensor]:
        """Before tanh, [B, A] each."""
        outputs = self.actor(s)
        if self.spread is not None:
            policy = self.spread.distribution(outputs, self.log_std)
            return policy.mean, policy.log_std
        mean, log_std = outputs.chunk(2, dim=-1)
        return mean, log_std.clamp(*LOG_STD_RANGE)

    def _sample(self, s: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
        """Actions [B, A] made of standard normal noise, and their log-density [B] in [-1, 1] (eq. 21).

        log(1 - tanh(u)^2) is written as 2 * (log 2 - u - softplus(-2u)), which stays finite.
        """
        mean, log_std = self._mean_and_log_std(s)
        u = mean + log_std.exp() * noise
        log_normal = -0.5 * noise.square() - log_std - 0.5 * math.log(2.0 * math.pi)
        log_slope = 2.0 * (math.log(2.0) - u - softplus(-2.0 * u))
        return self.centre + self.scale * u.tanh(), (log_normal - log_slope).sum(-1)

    def __call__(self, s: Tensor, a: Tensor, next_s: Tensor, r: Tensor, d: Tensor) -> list[Tensor]:
        """Losses [B] of actor (eq. 7), critics (eq. 5) and, where it is learned, log alpha (eq. 18)."""
        alpha = self.log_alpha.detach().exp()
        with torch.no_grad(), evaluating(self.actor):
            next_a, next_log_prob = self._sample(next_s, self.next_noise)
            next_q = torch.minimum(self.target_critic_1(next_s, next_a), self.target_critic_2(next_s, next_a))
            target = r + self.discount * (next_q - alpha * next_log_prob)  # [B]
        q = self.critic_1(s, a)
        error_1 = q - target
        error_2 = self.critic_2(s, a) - target
        self.prioritized_replay.update(0.5 * (error_1.abs() + error_2.abs()).detach())
        new_a, log_prob = self._sample(s, self.noise)
        actor_loss = alpha * log_prob - torch.minimum(self.critic_1(s, new_a), self.critic_2(s, new_a))
        self.report(q_mean=q, entropy=-log_prob, alpha=alpha)
        losses = [actor_loss, error_1.square() + error_2.square()]
        if self.alpha is None:
            losses.append(-self.log_alpha * (log_prob.detach() + self.entropy_wanted))
        return losses

    def update_param(self) -> None:
        """Moves the targets towards the online critics."""
        self._move_targets(self.tau)

    def _move_targets(self, tau: float) -> None:
        soft_update(self.target_critic_1, self.critic_1, tau)
        soft_update(self.target_critic_2, self.critic_2, tau)

    def default_policy(self) -> Policy:
        """Until set() says otherwise."""
        return SquashedGaussianPolicy() if self.gsde is None else SquashedGSDEPolicy()

    def acting_layers(self) -> list[DenseLayer] | None:
        """The actor's layers, if it consists of dense ones."""
        if self.spread is None:
            return dense_layers_of(self.actor)
        return self.spread.layers(self.actor, self.log_std)
