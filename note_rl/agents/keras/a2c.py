"""Advantage actor-critic in Keras (Mnih et al. 2016, https://arxiv.org/abs/1602.01783, without the asynchrony)."""

from typing import ClassVar

import tensorflow as tf

from note_rl.agents.keras.actor_critic import ActorCritic


class A2C(ActorCritic):
    """One gradient step on each short rollout of many environments, for discrete and for continuous actions.

    It takes a rollout as one minibatch, in one epoch (`set(PPO=True, num_epochs=1, ...)`; `agent=a2c` does): a second
    step on the same transitions would be off the policy that they come from, and nothing here corrects for that.
    """

    batch_attributes: ClassVar[tuple[str, ...]] = ("advantage", "return_")

    def __call__(self, s: tf.Tensor, a: tf.Tensor, next_s: tf.Tensor, r: tf.Tensor, d: tf.Tensor) -> tf.Tensor:
        """Loss [B]: -log pi(a|s) * A, squared value error, minus the entropy bonus (section 4 and algorithm S3)."""
        log_prob, entropy = self.log_prob_and_entropy(s, a)
        value_error = tf.square(self.value(s) - self.return_)
        return -log_prob * self.advantage + self.value_coef * value_error - self.entropy_coef * entropy
