"""Deep Q-network in Keras (Mnih et al. 2015, https://doi.org/10.1038/nature14236)."""

import tensorflow as tf

from note_rl.agents.declaration import Given
from note_rl.agents.dqn import DQNSettings
from note_rl.agents.shared.keras.choices import where_allowed
from note_rl.agents.shared.keras.distributions import at_action
from note_rl.agents.shared.keras.networks import mlp, soft_update
from note_rl.agents.shared.spaces import discrete_spaces
from note_rl.learners.numpy_policy import DenseLayer, dense_layers_of
from note_rl.rl import RL


class DQN(DQNSettings, RL):
    reads_triplets = False

    def make_networks(self, given: Given) -> None:
        """The online network, and a copy for targets."""
        spaces = discrete_spaces(self.env, type(self).__name__, given.state_dim, given.action_dim, self.frame_stack)
        make = given.network or mlp(given.hidden_size)
        with tf.device(given.device):
            self.q_net = make(spaces.obs_shape, spaces.num_actions)
            self.target_q_net = make(spaces.obs_shape, spaces.num_actions)
        soft_update(self.target_q_net, self.q_net, 1.0)
        self.param = self.q_net.trainable_variables
        self.discount: tf.Tensor

    def action(self, s: tf.Tensor) -> tf.Tensor:
        """Q-values [B, A]."""
        return self.q_net(s)

    def next_value(self, next_s: tf.Tensor) -> tf.Tensor:
        """Values of the next states [B]: max_a Q_target(s', a), of the actions allowed there."""
        return tf.reduce_max(where_allowed(self.target_q_net(next_s), self.next_action_mask), axis=1)

    def __call__(self, s: tf.Tensor, a: tf.Tensor, next_s: tf.Tensor, r: tf.Tensor, d: tf.Tensor) -> tf.Tensor:
        """Huber loss [B] between Q(s, a) and r + discount * next_value(s')."""
        target = tf.stop_gradient(r + self.discount * self.next_value(next_s))  # [B]
        q = at_action(self.q_net(s), a)  # [B]
        td_error = target - q
        self.prioritized_replay.update(td_error)
        self.report(q_mean=q)
        error = tf.abs(td_error)
        return tf.where(error < 1.0, 0.5 * tf.square(error), error - 0.5)

    def update_param(self) -> None:
        """Moves the target network towards the online one."""
        soft_update(self.target_q_net, self.q_net, self.tau)

    def acting_layers(self) -> list[DenseLayer] | None:
        """The online network's layers, if it consists of dense ones."""
        return dense_layers_of(self.q_net)
