"""Proximal policy optimization in PyTorch (Schulman et al. 2017, https://arxiv.org/abs/1707.06347)."""

import torch
from torch import Tensor

from note_rl.agents.actor_critic.torch import ActorCritic
from note_rl.agents.ppo import PPOSettings


class PPO(PPOSettings, ActorCritic):
    traceable = True

    def __call__(self, s: Tensor, a: Tensor, next_s: Tensor, r: Tensor, d: Tensor) -> Tensor:
        """Loss [B]: clipped surrogate (eq. 7), squared value error, minus the entropy bonus (eq. 9).

        The surrogate is weighed, and so is the divergence that is reported, where another policy has chosen.
        """
        log_prob, entropy, value = self.log_prob_entropy_and_value(s, a)
        ratio = (log_prob - self.log_prob_old).exp()
        clipped = ratio.clamp(1.0 - self.clip, 1.0 + self.clip)
        surrogate = torch.minimum(ratio * self.advantage, clipped * self.advantage)
        if self.importance_ratio is not None:
            surrogate = self.importance_ratio * surrogate
            self.report(approx_kl=self.importance_ratio * (ratio - 1.0 - ratio.log()))
        value_error = self._value_error(value)
        self.prioritized_replay.update(value_error.detach().sqrt(), ratio.detach())
        self.report(entropy=entropy, clip_fraction=clipped != ratio, value_loss=value_error)
        loss: Tensor = -surrogate + self.value_coef * value_error - self.entropy_coef * entropy
        return loss

    def _value_error(self, value: Tensor) -> Tensor:
        """Squared distance [B] to the return; if clipped, the larger one of the value and the clipped value."""
        error = (value - self.return_).square()
        if self.clip_value is None:
            return error
        clipped = self.value_old + (value - self.value_old).clamp(-self.clip_value, self.clip_value)
        return torch.maximum(error, (clipped - self.return_).square())
