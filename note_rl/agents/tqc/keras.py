"""Truncated quantile critics in Keras (TQC, Kuznetsov et al. 2020, https://arxiv.org/abs/2005.04269)."""

from collections.abc import Sequence
from contextlib import nullcontext
from functools import reduce
from operator import add

import tensorflow as tf

from note_rl.agents.sac.keras import SAC
from note_rl.agents.shared.keras.action_values import quantile_losses
from note_rl.agents.shared.keras.networks import MakeNetwork, QNetwork
from note_rl.agents.shared.spaces import ContinuousSpaces
from note_rl.agents.tqc import TQCSettings
from note_rl.learners.keras.modes import dropping, evaluating


class QuantileCritic(QNetwork):
    """Quantiles [B, M] of the return of (s, a), those at (i + 1/2) / M."""

    def call(self, s: tf.Tensor, a: tf.Tensor) -> tf.Tensor:
        """Quantiles [B, M] for actions [B, A] in states [B, *obs]."""
        return self._values(s, a)


class TQC(TQCSettings, SAC):
    reads_triplets = False

    def _make_critic(self, make: MakeNetwork, spaces: ContinuousSpaces) -> QNetwork:
        return QuantileCritic(make, spaces, num_outputs=self.num_quantiles)

    def __call__(self, s: tf.Tensor, a: tf.Tensor, next_s: tf.Tensor, r: tf.Tensor, d: tf.Tensor) -> list[tf.Tensor]:
        """Losses [B] of actor, critics and, where it is learned, log alpha, as those of `SAC` (algorithm 1)."""
        alpha = self.entropy_weight()
        with evaluating():
            next_a, next_log_prob = self._sample(next_s, self.next_noise)
        with dropping() if self.critic_dropout > 0.0 else nullcontext():  # DroQ
            kept = self.truncated([critic(next_s, next_a) for critic in self.target_critics()])
        future = kept - (alpha * next_log_prob)[:, None]
        target = tf.stop_gradient(r[:, None] + self.discount[:, None] * future)  # [B, K]
        q = [critic(s, a) for critic in self.critics()]
        losses_and_errors = [quantile_losses(one, target) for one in q]
        critic_loss = reduce(add, [loss for loss, _ in losses_and_errors]) / self.num_quantiles
        self.prioritized_replay.update(reduce(add, [error for _, error in losses_and_errors]) / self.num_critics)
        new_a, log_prob = self._sample(s, self.noise)
        actor_loss = alpha * log_prob - self.value_to_climb([critic(s, new_a) for critic in self.critics()])
        self.report(q_mean=tf.reduce_mean(q[0], axis=1), entropy=-log_prob, alpha=alpha)
        losses = [actor_loss, critic_loss]
        return [*losses, *self._alpha_losses(-tf.stop_gradient(log_prob) - self.entropy_wanted)]

    def truncated(self, quantiles: Sequence[tf.Tensor]) -> tf.Tensor:
        """The smallest quantiles [B, K] of those of N critics together, [B, M] each."""
        return -tf.math.top_k(-tf.concat(quantiles, axis=1), self.num_kept, sorted=False).values  # in any order

    def value_to_climb(self, values: Sequence[tf.Tensor]) -> tf.Tensor:
        """The value [B] that the actor follows: the mean of the quantiles of all critics, [B, M] each."""
        return reduce(add, [tf.reduce_mean(one, axis=1) for one in values]) / self.num_critics
