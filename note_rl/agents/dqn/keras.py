"""Deep Q-network in Keras (Mnih et al. 2015, https://doi.org/10.1038/nature14236)."""

from functools import cached_property

import tensorflow as tf

from note_rl.agents.declaration import Given
from note_rl.agents.dqn import CATEGORICAL, CHOICE_Q_NOISE, Q_NOISE, QUANTILES, TARGET_Q_NOISE, DQNSettings
from note_rl.agents.shared.keras.action_values import ActionValues, Categorical, Expected, Quantiles
from note_rl.agents.shared.keras.dueling import dueling
from note_rl.agents.shared.keras.networks import mlp, soft_update
from note_rl.agents.shared.keras.noisy import noisy_outputs, num_noise
from note_rl.agents.shared.spaces import discrete_spaces
from note_rl.learners.keras.modes import evaluating
from note_rl.learners.numpy_noise import NoisyActing, noisy_stages_of
from note_rl.learners.numpy_policy import DenseLayer, dense_layers_of
from note_rl.rl import RL


class DQN(DQNSettings, RL):
    reads_triplets = False

    def make_networks(self, given: Given) -> None:
        """The online network, and a copy for targets."""
        spaces = discrete_spaces(self.env, type(self).__name__, given.state_dim, given.action_dim, self.frame_stack)
        num_each = self.action_values.num_each
        make = given.network or mlp(given.hidden_size)
        if self.dueling:
            make, self.num_output_layers = dueling(make, self.stream_size, num_each), 2
        num_outputs = spaces.num_actions * num_each
        with tf.device(given.device):
            self.q_net = make(spaces.obs_shape, num_outputs)
            self.target_q_net = make(spaces.obs_shape, num_outputs)
        soft_update(self.target_q_net, self.q_net, 1.0)
        self.param = self.q_net.trainable_variables
        self._draw_noise(num_noise(self.q_net))
        self.discount: tf.Tensor

    def _draw_noise(self, number: int) -> None:
        """Has noise drawn for noisy layers, of which there are none if this is 0."""
        names = (Q_NOISE, TARGET_Q_NOISE, *((CHOICE_Q_NOISE,) if self.double else ()))
        if number:
            self.normal_inputs, self.shared_normal_inputs = dict.fromkeys(names, (number,)), names
            self.acting_noise = number

    @cached_property
    def action_values(self) -> ActionValues:
        """How outputs of the networks stand for the returns of actions: one object, so that traces stay valid."""
        if self.values == CATEGORICAL:
            return Categorical(self.num_atoms, self.v_min, self.v_max)
        return Quantiles(self.num_quantiles) if self.values == QUANTILES else Expected()

    def action(self, s: tf.Tensor) -> tf.Tensor:
        """Q-values [B, A]."""
        return self.action_values.expected(self.q_net(s))

    def noisy_action(self, s: tf.Tensor, noise: tf.Tensor) -> tf.Tensor:
        """Q-values [B, A] with the noise that normal numbers [B, F] give to noisy layers."""
        return self.action_values.expected(noisy_outputs(self.q_net, s, noise))

    def next_value(self, next_s: tf.Tensor) -> tf.Tensor:
        """Returns of the best action in the next states, of those allowed, as the target network has them.

        Returns:
            Values [B], max_a Q_target(s', a); where returns are distributions, the N numbers that stand for one,
            [B, N]. With `double` the online network chooses the best action.
        """
        outputs = noisy_outputs(self.target_q_net, next_s, self.target_q_noise)
        if not self.double:
            return self.action_values.best(outputs, self.next_action_mask)
        with evaluating():
            online = noisy_outputs(self.q_net, next_s, self.choice_q_noise)
        return self.action_values.taken(outputs, self.action_values.choice(online, self.next_action_mask))

    def __call__(self, s: tf.Tensor, a: tf.Tensor, next_s: tf.Tensor, r: tf.Tensor, d: tf.Tensor) -> tf.Tensor:
        """Loss [B] between the outputs for (s, a) and r + discount * next_value(s')."""
        values = self.action_values
        target = tf.stop_gradient(values.target(r, self.discount, self.next_value(next_s)))
        taken = values.taken(noisy_outputs(self.q_net, s, self.q_noise), a)
        loss, error = values.losses(taken, target)
        self.prioritized_replay.update(error)
        self.report(**values.reported(taken, target))
        return loss

    def update_param(self) -> None:
        """Moves the target network towards the online one."""
        soft_update(self.target_q_net, self.q_net, self.tau)

    def noisy_acting(self) -> NoisyActing | None:
        """The online network's layers with their noise, if it consists of dense ones."""
        stages = noisy_stages_of(self.q_net)
        return None if stages is None else NoisyActing(stages, self.action_values.expected_in_numpy)

    def acting_layers(self) -> list[DenseLayer] | None:
        """The online network's layers without noise, if it consists of dense ones."""
        layers = dense_layers_of(self.q_net)
        return None if layers is None else self.action_values.acting_layers(layers)
