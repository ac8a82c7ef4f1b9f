"""Proximal policy optimization in Keras (Schulman et al. 2017, https://arxiv.org/abs/1707.06347)."""

import tensorflow as tf

from note_rl.agents.actor_critic.keras import ActorCritic
from note_rl.agents.ppo import PPOSettings


class PPO(PPOSettings, ActorCritic):
    def __call__(self, s: tf.Tensor, a: tf.Tensor, next_s: tf.Tensor, r: tf.Tensor, d: tf.Tensor) -> tf.Tensor:
        """Loss [B]: clipped surrogate (eq. 7), squared value error, minus the entropy bonus (eq. 9).

        The surrogate is weighed, and so is the divergence that is reported, where another policy has chosen.
        """
        log_prob, entropy, value = self.log_prob_entropy_and_value(s, a)
        ratio = tf.exp(log_prob - self.log_prob_old)
        clipped = tf.clip_by_value(ratio, 1.0 - self.clip, 1.0 + self.clip)
        surrogate = tf.minimum(ratio * self.advantage, clipped * self.advantage)
        if self.importance_ratio is not None:
            surrogate = self.importance_ratio * surrogate
            self.report(approx_kl=self.importance_ratio * (ratio - 1.0 - tf.math.log(ratio)))
        value_error = self._value_error(value)
        self.prioritized_replay.update(tf.sqrt(value_error), ratio)
        self.report(entropy=entropy, clip_fraction=clipped != ratio, value_loss=value_error)
        return -surrogate + self.value_coef * value_error - self.entropy_coef * entropy

    def _value_error(self, value: tf.Tensor) -> tf.Tensor:
        """Squared distance [B] to the return; if clipped, the larger one of the value and the clipped value."""
        error = tf.square(value - self.return_)
        if self.clip_value is None:
            return error
        clipped = self.value_old + tf.clip_by_value(value - self.value_old, -self.clip_value, self.clip_value)
        return tf.maximum(error, tf.square(clipped - self.return_))
