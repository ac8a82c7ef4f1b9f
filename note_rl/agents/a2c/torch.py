"""Advantage actor-critic in PyTorch (Mnih et al. 2016, https://arxiv.org/abs/1602.01783, without the asynchrony)."""

from torch import Tensor

from note_rl.agents.a2c import A2CSettings
from note_rl.agents.actor_critic.torch import ActorCritic


class A2C(A2CSettings, ActorCritic):
    traceable = True

    def __call__(self, s: Tensor, a: Tensor, next_s: Tensor, r: Tensor, d: Tensor) -> Tensor:
        """Loss [B]: -log pi(a|s) * A, squared value error, minus the entropy bonus (section 4 and algorithm S3)."""
        log_prob, entropy, value = self.log_prob_entropy_and_value(s, a)
        value_error = (value - self.return_).square()
        self.report(entropy=entropy, value_loss=value_error)
        loss: Tensor = -log_prob * self.advantage + self.value_coef * value_error - self.entropy_coef * entropy
        return loss
