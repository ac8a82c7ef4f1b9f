"""Twin delayed deep deterministic policy gradient in Keras (Fujimoto et al. 2018, https://arxiv.org/abs/1802.09477)."""

import tensorflow as tf

from note_rl.agents.declaration import Given
from note_rl.agents.shared.keras.networks import QNetwork, TanhActor, mlp, soft_update
from note_rl.agents.shared.spaces import continuous_spaces
from note_rl.agents.td3 import TD3Settings
from note_rl.learners.numpy_policy import DenseLayer
from note_rl.rl import RL


class TD3(TD3Settings, RL):
    reads_triplets = False

    def make_networks(self, given: Given) -> None:
        """The online networks, and a copy of each for targets."""
        spaces = continuous_spaces(self.env, "TD3", self.frame_stack)
        make = given.network or mlp(given.hidden_size)
        make_critic = given.critic_network or make
        with tf.device(given.device):
            self.actor, self.target_actor = TanhActor(make, spaces), TanhActor(make, spaces)
            self.critic_1, self.target_critic_1 = QNetwork(make_critic, spaces), QNetwork(make_critic, spaces)
            self.critic_2, self.target_critic_2 = QNetwork(make_critic, spaces), QNetwork(make_critic, spaces)
        self._move_targets(1.0)
        self.param = [
            self.actor.trainable_variables,
            [*self.critic_1.trainable_variables, *self.critic_2.trainable_variables],
        ]
        self.normal_inputs = {"next_noise": (spaces.action_size,)}
        self.next_noise: tf.Tensor
        self.discount: tf.Tensor

    def action(self, s: tf.Tensor) -> tf.Tensor:
        """Actions [B, A]."""
        return self.actor(s)

    def _smoothed_target_action(self, next_s: tf.Tensor) -> tf.Tensor:
        """mu'(s') plus clipped noise, within the bounds [B, A] (eq. 14)."""
        noise = tf.clip_by_value(self.next_noise * self.target_noise, -self.noise_clip, self.noise_clip)
        centre, scale = self.target_actor.centre, self.target_actor.scale
        a = self.target_actor(next_s) + noise * scale
        return tf.clip_by_value(a, centre - scale, centre + scale)

    def __call__(self, s: tf.Tensor, a: tf.Tensor, next_s: tf.Tensor, r: tf.Tensor, d: tf.Tensor) -> list[tf.Tensor]:
        """Losses [B] of actor, -Q_1(s, mu(s)), and critics, the sum of both squared errors."""
        next_a = self._smoothed_target_action(next_s)
        next_q = tf.minimum(self.target_critic_1(next_s, next_a), self.target_critic_2(next_s, next_a))
        target = tf.stop_gradient(r + self.discount * next_q)  # [B]
        q = self.critic_1(s, a)
        error_1 = q - target
        error_2 = self.critic_2(s, a) - target
        self.prioritized_replay.update(0.5 * (tf.abs(error_1) + tf.abs(error_2)))
        self.report(q_mean=q)
        return [-self.critic_1(s, self.actor(s)), tf.square(error_1) + tf.square(error_2)]

    def update_param(self) -> None:
        """Moves the targets towards the online networks."""
        self._move_targets(self.tau)

    def _move_targets(self, tau: float) -> None:
        soft_update(self.target_actor, self.actor, tau)
        soft_update(self.target_critic_1, self.critic_1, tau)
        soft_update(self.target_critic_2, self.critic_2, tau)

    def acting_layers(self) -> list[DenseLayer] | None:
        """The actor's layers, if its network consists of dense ones."""
        return self.actor.dense_layers()
