"""CrossQ in Keras (Bhatt et al. 2024, https://arxiv.org/abs/1902.05605)."""

from functools import reduce
from operator import add
from typing import Any

import keras
import tensorflow as tf

from note_rl.agents.crossq import CrossQSettings
from note_rl.agents.declaration import Given
from note_rl.agents.sac.keras import SAC
from note_rl.agents.shared.inserted_layers import refuse_images, refuse_without_renorm, renormalised
from note_rl.agents.shared.keras.layered import with_layers
from note_rl.agents.shared.keras.networks import MakeNetwork, QNetwork, mlp
from note_rl.agents.shared.spaces import ContinuousSpaces, continuous_spaces
from note_rl.learners.keras.keras_internals import all_layers
from note_rl.learners.keras.modes import evaluating


class CrossQ(CrossQSettings, SAC):
    reads_triplets = False

    def make_networks(self, given: Given) -> None:
        """An actor, critics, and the weight of the entropy."""
        spaces = continuous_spaces(self.env, type(self).__name__, self.frame_stack)
        refuse_images(spaces.obs_shape)
        make = given.network or mlp(given.hidden_size)
        make_critic = given.critic_network or mlp(given.critic_hidden_size)
        with tf.device(given.device):
            self._make_actor(with_layers(make, renormalised, _check), spaces)
            self._make_critics(with_layers(make_critic, renormalised, _check), spaces)
            self._make_alpha()
        self._list_parameters(spaces)
        self.groups_at_sync = (0,) if self.alpha is not None else (0, 2)

    def _make_critics(self, make: MakeNetwork, spaces: ContinuousSpaces) -> None:
        for number in self._numbers():
            setattr(self, f"critic_{number}", QNetwork(make, spaces))

    def __call__(self, s: tf.Tensor, a: tf.Tensor, next_s: tf.Tensor, r: tf.Tensor, d: tf.Tensor) -> list[tf.Tensor]:
        """Losses [B] as those of `SAC`, with targets of the critics themselves (figure 2)."""
        alpha = self.entropy_weight()
        with evaluating():
            next_a, next_log_prob = self._sample(next_s, self.next_noise)
        both = tf.concat([s, next_s], axis=0), tf.concat([a, next_a], axis=0)
        halves = [tf.split(critic(*both), 2) for critic in self.critics()]
        next_q = self.smallest([after for _, after in halves])
        target = tf.stop_gradient(r + self.discount * (next_q - alpha * next_log_prob))  # [B]
        errors = [q - target for q, _ in halves]
        self.prioritized_replay.update(reduce(add, [tf.abs(error) for error in errors]) / self.num_critics)
        new_a, log_prob = self._sample(s, self.noise)
        with evaluating():
            values = [critic(s, new_a) for critic in self.critics()]
        actor_loss = alpha * log_prob - self.value_to_climb(values)
        self.report(q_mean=halves[0][0], entropy=-log_prob, alpha=alpha)
        losses = [actor_loss, reduce(add, [tf.square(error) for error in errors])]
        return [*losses, *self._alpha_losses(-tf.stop_gradient(log_prob) - self.entropy_wanted)]

    def update_param(self) -> None:
        """Does nothing: there are no target networks."""


def _check(network: Any) -> None:
    if not any(isinstance(layer, keras.layers.BatchNormalization) for layer in all_layers(network)):
        refuse_without_renorm(network)
