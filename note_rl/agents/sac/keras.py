"""Soft actor-critic in Keras (Haarnoja et al. 2018, https://arxiv.org/abs/1812.05905)."""

import math

import tensorflow as tf

from note_rl.agents.declaration import Given
from note_rl.agents.sac import SACSettings
from note_rl.agents.shared.keras.networks import QNetwork, mlp, soft_update
from note_rl.agents.shared.keras.numbers import ByState
from note_rl.agents.shared.spaces import continuous_spaces
from note_rl.learners.keras.modes import evaluating
from note_rl.learners.numpy_policy import DenseLayer, dense_layers_of
from note_rl.policy import Policy, SquashedGaussianPolicy, SquashedGSDEPolicy
from note_rl.policy.continuous import LOG_STD_RANGE
from note_rl.rl import RL


class SAC(SACSettings, RL):
    reads_triplets = False

    def make_networks(self, given: Given) -> None:
        """An actor, two critics with a copy of each for targets, and the weight of the entropy."""
        spaces = continuous_spaces(self.env, "SAC", self.frame_stack)
        make = given.network or mlp(given.hidden_size)
        make_critic = given.critic_network or make
        self.entropy_wanted = -float(spaces.action_size) if self.target_entropy is None else self.target_entropy
        self.centre = spaces.centre
        self.scale = spaces.scale
        start = math.log(self.initial_alpha if self.alpha is None else self.alpha)
        self.spread = None if self.gsde is None else ByState(spaces.action_size, self.gsde)
        learned = []
        with tf.device(given.device):
            self.actor = make(spaces.obs_shape, spaces.action_size * (2 if self.spread is None else 1))
            if self.spread is not None:
                self.log_std = tf.Variable(self.spread.start(self.actor, spaces.action_size, self.initial_log_std))
                self.actor = self.spread.network(self.actor)
                learned = [self.log_std]
            self.critic_1, self.target_critic_1 = QNetwork(make_critic, spaces), QNetwork(make_critic, spaces)
            self.critic_2, self.target_critic_2 = QNetwork(make_critic, spaces), QNetwork(make_critic, spaces)
            self.log_alpha = tf.Variable([start], trainable=self.alpha is None)
        self._move_targets(1.0)
        self.param = [
            [*self.actor.trainable_variables, *learned],
            [*self.critic_1.trainable_variables, *self.critic_2.trainable_variables],
        ]
        if self.alpha is None:
            self.param.append([self.log_alpha])
        self.normal_inputs = {"noise": (spaces.action_size,), "next_noise": (spaces.action_size,)}
        self.noise: tf.Tensor
        self.next_noise: tf.Tensor
        self.discount: tf.Tensor

    def action(self, s: tf.Tensor) -> tf.Tensor:
        """Means and log deviations before tanh, [B, 2A]; with `gsde` what `ByState.answers` says."""
        scores = self.actor(s)
        return scores if self.spread is None else self.spread.answers(scores, self.log_std)

    def _mean_and_log_std(self, s: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Before tanh, [B, A] each."""
        outputs = self.actor(s)
        if self.spread is not None:
            policy = self.spread.distribution(outputs, self.log_std)
            return policy.mean, policy.log_std
        mean, log_std = tf.split(outputs, 2, axis=-1)
        return mean, tf.clip_by_value(log_std, *LOG_STD_RANGE)

    def _sample(self, s: tf.Tensor, noise: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Actions [B, A] made of standard normal noise, and their log-density [B] in [-1, 1] (eq. 21).

        log(1 - tanh(u)^2) is written as 2 * (log 2 - u - softplus(-2u)), which stays finite.
        """
        mean, log_std = self._mean_and_log_std(s)
        u = mean + tf.exp(log_std) * noise
        log_normal = -0.5 * tf.square(noise) - log_std - 0.5 * math.log(2.0 * math.pi)
        log_slope = 2.0 * (math.log(2.0) - u - tf.nn.softplus(-2.0 * u))
        return self.centre + self.scale * tf.tanh(u), tf.reduce_sum(log_normal - log_slope, axis=-1)

    def __call__(self, s: tf.Tensor, a: tf.Tensor, next_s: tf.Tensor, r: tf.Tensor, d: tf.Tensor) -> list[tf.Tensor]:
        """Losses [B] of actor (eq. 7), critics (eq. 5) and, where it is learned, log alpha (eq. 18)."""
        alpha = tf.stop_gradient(tf.exp(self.log_alpha))
        with evaluating():
            next_a, next_log_prob = self._sample(next_s, self.next_noise)
        next_q = tf.minimum(self.target_critic_1(next_s, next_a), self.target_critic_2(next_s, next_a))
        target = tf.stop_gradient(r + self.discount * (next_q - alpha * next_log_prob))  # [B]
        q = self.critic_1(s, a)
        error_1 = q - target
        error_2 = self.critic_2(s, a) - target
        self.prioritized_replay.update(0.5 * (tf.abs(error_1) + tf.abs(error_2)))
        new_a, log_prob = self._sample(s, self.noise)
        actor_loss = alpha * log_prob - tf.minimum(self.critic_1(s, new_a), self.critic_2(s, new_a))
        self.report(q_mean=q, entropy=-log_prob, alpha=alpha)
        losses = [actor_loss, tf.square(error_1) + tf.square(error_2)]
        if self.alpha is None:
            losses.append(-self.log_alpha * (tf.stop_gradient(log_prob) + self.entropy_wanted))
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
