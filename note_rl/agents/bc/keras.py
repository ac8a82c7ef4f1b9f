"""Behaviour cloning in Keras (Pomerleau 1991, https://doi.org/10.1162/neco.1991.3.1.88)."""

import tensorflow as tf

from note_rl.agents.actor_critic.keras import ActorCritic
from note_rl.agents.bc import BCSettings
from note_rl.agents.declaration import Given


class BC(BCSettings, ActorCritic):
    def make_networks(self, given: Given) -> None:
        """As `ActorCritic`; only the policy learns."""
        super().make_networks(given)
        self.param = [*self.actor.trainable_variables, *([] if self.log_std is None else [self.log_std])]

    def __call__(self, s: tf.Tensor, a: tf.Tensor, next_s: tf.Tensor, r: tf.Tensor, d: tf.Tensor) -> tf.Tensor:
        """Loss [B]: -log pi(a|s), the least for the most likely policy, minus the entropy bonus.

        Of several actions it is the cross-entropy; of a normal distribution the squared error in units of its
        deviation, and the logarithm of that (Bishop 2006, Pattern Recognition and Machine Learning, section 5.2).
        """
        log_prob, entropy = self.log_prob_and_entropy(s, a)
        self.report(entropy=entropy, log_likelihood=log_prob)
        return -log_prob - self.entropy_coef * entropy
