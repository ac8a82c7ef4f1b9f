"""Soft actor-critic for discrete actions in Keras (Christodoulou 2019, https://arxiv.org/abs/1910.07207)."""

import math

import tensorflow as tf

from note_rl.agents.declaration import Given
from note_rl.agents.sac.keras import EntropyWeight
from note_rl.agents.sac_discrete import SACDiscreteSettings
from note_rl.agents.shared.keras.choices import where_allowed
from note_rl.agents.shared.keras.distributions import at_action
from note_rl.agents.shared.keras.networks import mlp, soft_update
from note_rl.agents.shared.spaces import discrete_spaces
from note_rl.learners.keras.modes import evaluating
from note_rl.learners.numpy_policy import DenseLayer, dense_layers_of
from note_rl.policy import Policy, SoftmaxPolicy
from note_rl.rl import RL


class SACDiscrete(SACDiscreteSettings, EntropyWeight, RL):
    reads_triplets = False

    def make_networks(self, given: Given) -> None:
        """An actor, two critics with a copy of each for targets, and the weight of the entropy."""
        spaces = discrete_spaces(self.env, type(self).__name__, given.state_dim, given.action_dim, self.frame_stack)
        make = given.network or mlp(given.hidden_size)
        make_critic = given.critic_network or make
        sizes = spaces.obs_shape, spaces.num_actions
        self.num_actions = spaces.num_actions
        with tf.device(given.device):
            self.actor = make(*sizes)
            self.critic_1, self.target_critic_1 = make_critic(*sizes), make_critic(*sizes)
            self.critic_2, self.target_critic_2 = make_critic(*sizes), make_critic(*sizes)
            self._make_alpha()
        self._move_targets(1.0)
        self.param = [
            self.actor.trainable_variables,
            [*self.critic_1.trainable_variables, *self.critic_2.trainable_variables],
            *self._learned_alpha(),
        ]
        self.discount: tf.Tensor

    def action(self, s: tf.Tensor) -> tf.Tensor:
        """Probabilities [B, A]."""
        return tf.nn.softmax(self.actor(s))

    def __call__(self, s: tf.Tensor, a: tf.Tensor, next_s: tf.Tensor, r: tf.Tensor, d: tf.Tensor) -> list[tf.Tensor]:
        """Losses [B] of actor (eq. 12), critics (by eq. 10) and, where it is learned, log alpha (eq. 11)."""
        alpha = self.entropy_weight()
        with evaluating():
            next_log_f = tf.nn.log_softmax(where_allowed(self.actor(next_s), self.next_action_mask))  # [B, A]
        next_q = tf.minimum(self.target_critic_1(next_s), self.target_critic_2(next_s))
        next_value = tf.reduce_sum(tf.exp(next_log_f) * (next_q - alpha * next_log_f), axis=-1)
        target = tf.stop_gradient(r + self.discount * next_value)  # [B]
        q_1, q_2 = self.critic_1(s), self.critic_2(s)  # [B, A]
        q = at_action(q_1, a)
        error_1 = q - target
        error_2 = at_action(q_2, a) - target
        self.prioritized_replay.update(0.5 * (tf.abs(error_1) + tf.abs(error_2)))
        log_f = tf.nn.log_softmax(where_allowed(self.actor(s), self.action_mask))
        f = tf.exp(log_f)
        actor_loss = tf.reduce_sum(f * (alpha * log_f - tf.stop_gradient(tf.minimum(q_1, q_2))), axis=-1)
        entropy = -tf.reduce_sum(f * log_f, axis=-1)
        self.report(q_mean=q, entropy=entropy, alpha=alpha)
        losses = [actor_loss, tf.square(error_1) + tf.square(error_2)]
        return [*losses, *self._alpha_losses(tf.stop_gradient(entropy) - self._entropy_wanted())]

    def _entropy_wanted(self) -> tf.Tensor | float:
        """Of the policy in each state [B], or in all of them."""
        if self.action_mask is None:
            return self.target_entropy_ratio * math.log(self.num_actions)
        return self.target_entropy_ratio * tf.math.log(tf.reduce_sum(tf.cast(self.action_mask, tf.float32), axis=-1))

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
