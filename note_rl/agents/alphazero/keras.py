"""AlphaZero for one player in Keras (Silver et al. 2018, https://doi.org/10.1126/science.aar6404)."""

from typing import Any

import tensorflow as tf

from note_rl.agents.actor_critic.keras import ActorCritic
from note_rl.agents.alphazero import AlphaZeroSettings, Guidance, searched, simulator_in, unit_of_values
from note_rl.agents.declaration import Given
from note_rl.agents.shared.keras.choices import OneOf, where_allowed
from note_rl.agents.shared.keras.layered import through_one_trunk
from note_rl.agents.shared.keras.recurrent import State
from note_rl.learners.keras.modes import evaluating
from note_rl.learners.numpy_policy import dense_layers_of
from note_rl.types import Array, FloatArray


class AlphaZero(AlphaZeroSettings, ActorCritic):
    def make_networks(self, given: Given) -> None:
        """The networks of `ActorCritic`, the simulator, and the unit of values."""
        super().make_networks(given)
        self.simulator = simulator_in(self.env, given.simulator, type(self).__name__)
        self.guidance = Guidance()
        self._unit = unit_of_values(self.gamma)  # once: values stay as they are if the discount changes in training
        self.behaviour: tf.Tensor

    def action(self, s: tf.Tensor, state: State | None = None) -> Any:
        """Probabilities [B, A]: the shares of visits at the root, after a search from each of the states."""
        del state  # there is no memory
        probabilities = tf.numpy_function(self._searched, [s], tf.float32)  # Python, also where action() is traced
        assert isinstance(self.choice, OneOf)
        return tf.ensure_shape(probabilities, (None, self.choice.num_actions))

    def _searched(self, obs: Array) -> FloatArray:
        evaluate = self.guidance(self.acting_layers(), dense_layers_of(self.critic), self._unit, self._guide, obs)
        return searched(self, obs, evaluate)

    def _guide(self, obs: Array) -> tuple[FloatArray, FloatArray]:
        """The policy [B, A] and the value [B] of observations [B, *obs]."""
        with evaluating():  # which does not reach here from outside of what is traced
            outputs, value = self._policy_and_value(tf.convert_to_tensor(obs))
        return tf.nn.softmax(outputs).numpy(), value.numpy()

    def value(self, s: tf.Tensor, state: State | None = None) -> Any:
        """V(s) [B]."""
        return self._unit * super().value(s, state)

    def _policy_and_value(self, s: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Logits [B, A] and values [B]."""
        if self.one_trunk:
            outputs, v = through_one_trunk(self.actor, self.critic, s)
            return outputs, self._unit * v[:, 0]
        return self.actor(s), self.value(s)

    def __call__(self, s: tf.Tensor, a: tf.Tensor, next_s: tf.Tensor, r: tf.Tensor, d: tf.Tensor) -> tf.Tensor:
        """Loss [B]: -sum over actions of pi * log p, and the squared error of the value in its unit (methods, eq. 1).

        pi are the probabilities after the search, p is the policy. Weight decay belongs to the optimizer.
        """
        outputs, value = self._policy_and_value(s)
        log_policy = tf.nn.log_softmax(where_allowed(outputs, self.action_mask))
        policy_loss = -tf.reduce_sum(self.behaviour * log_policy, axis=-1)
        value_error = tf.square((value - self.return_) / self._unit)
        self.report(policy_loss=policy_loss, value_loss=value_error)
        return policy_loss + self.value_coef * value_error
