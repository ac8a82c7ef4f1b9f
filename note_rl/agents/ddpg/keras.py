"""Deep deterministic policy gradient in Keras (Lillicrap et al. 2016, https://arxiv.org/abs/1509.02971)."""

import tensorflow as tf

from note_rl.agents.ddpg import DDPGSettings
from note_rl.agents.declaration import Given
from note_rl.agents.shared.keras.networks import QNetwork, TanhActor, mlp, soft_update
from note_rl.agents.shared.spaces import continuous_spaces
from note_rl.learners.numpy_policy import DenseLayer
from note_rl.rl import RL


class DDPG(DDPGSettings, RL):
    reads_triplets = False

    def make_networks(self, given: Given) -> None:
        """The online networks, and a copy of each for targets."""
        spaces = continuous_spaces(self.env, "DDPG", self.frame_stack)
        make = given.network or mlp(given.hidden_size)
        make_critic = given.critic_network or make
        with tf.device(given.device):
            self.actor, self.target_actor = TanhActor(make, spaces), TanhActor(make, spaces)
            self.critic, self.target_critic = QNetwork(make_critic, spaces), QNetwork(make_critic, spaces)
        soft_update(self.target_actor, self.actor, 1.0)
        soft_update(self.target_critic, self.critic, 1.0)
        self.param = [self.actor.trainable_variables, self.critic.trainable_variables]
        self.discount: tf.Tensor

    def action(self, s: tf.Tensor) -> tf.Tensor:
        """Actions [B, A]."""
        return self.actor(s)

    def __call__(self, s: tf.Tensor, a: tf.Tensor, next_s: tf.Tensor, r: tf.Tensor, d: tf.Tensor) -> list[tf.Tensor]:
        """Losses [B] of actor and critic: -Q(s, mu(s)), and (Q(s, a) - r - discount * Q'(s', mu'(s')))^2."""
        target = r + self.discount * self.target_critic(next_s, self.target_actor(next_s))  # [B]
        q = self.critic(s, a)
        error = q - tf.stop_gradient(target)
        self.prioritized_replay.update(error)
        self.report(q_mean=q)
        return [-self.critic(s, self.actor(s)), tf.square(error)]

    def update_param(self) -> None:
        """Moves the targets towards the online networks."""
        soft_update(self.target_actor, self.actor, self.tau)
        soft_update(self.target_critic, self.critic, self.tau)

    def acting_layers(self) -> list[DenseLayer] | None:
        """The actor's layers, if its network consists of dense ones."""
        return self.actor.dense_layers()
