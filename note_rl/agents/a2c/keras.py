"""Advantage actor-critic in Keras (Mnih et al. 2016, https://arxiv.org/abs/1602.01783, without the asynchrony)."""

import tensorflow as tf

from note_rl.agents.a2c import A2CSettings
from note_rl.agents.actor_critic.keras import ActorCritic


class A2C(A2CSettings, ActorCritic):
    def __call__(self, s: tf.Tensor, a: tf.Tensor, next_s: tf.Tensor, r: tf.Tensor, d: tf.Tensor) -> tf.Tensor:
        """Loss [B]: -log pi(a|s) * A, squared value error, minus the entropy bonus (section 4 and algorithm S3)."""
        log_prob, entropy, value = self.log_prob_entropy_and_value(s, a)
        value_error = tf.square(value - self.return_)
        self.report(entropy=entropy, value_loss=value_error)
        return -log_prob * self.advantage + self.value_coef * value_error - self.entropy_coef * entropy
