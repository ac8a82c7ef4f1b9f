"""Generative adversarial imitation learning in Keras (Ho & Ermon 2016, https://arxiv.org/abs/1606.03476)."""

import math
from itertools import chain

import tensorflow as tf

from note_rl.agents.declaration import Given
from note_rl.agents.gail import GAILSettings
from note_rl.agents.ppo.keras import PPO
from note_rl.agents.shared.keras.networks import as_numbers, mlp
from note_rl.agents.shared.spaces import any_spaces, num_outputs


class GAIL(GAILSettings, PPO):
    reads_triplets = False

    def make_networks(self, given: Given) -> None:
        """As `PPO`, and the discriminator."""
        super().make_networks(given)
        spaces = any_spaces(self.env, "GAIL", given.state_dim, given.action_dim, self.frame_stack)
        num_inputs = math.prod(spaces.obs_shape) + num_outputs(spaces)
        with tf.device(given.device):
            self.discriminator = mlp(given.discriminator_size, "tanh")((num_inputs,), 1)
        self.param = [list(chain(*self.param)), self.discriminator.trainable_variables]
        self.expert_obs: tf.Tensor
        self.expert_action: tf.Tensor

    def _pair(self, s: tf.Tensor, a: tf.Tensor) -> tf.Tensor:
        """The discriminator's input for states and actions, [B, ...]."""
        action = tf.cast(a, tf.float32) if self.choice is None else self.choice.indicators(a)
        return tf.concat([tf.reshape(as_numbers(s), (-1, math.prod(s.shape[1:]))), action], axis=1)

    def reward(self, s: tf.Tensor, a: tf.Tensor, next_s: tf.Tensor) -> tf.Tensor:
        """Log-odds [B] that the expert did a in s."""
        return self.discriminator(self._pair(s, a))[:, 0]

    def __call__(self, s: tf.Tensor, a: tf.Tensor, next_s: tf.Tensor, r: tf.Tensor, d: tf.Tensor) -> list[tf.Tensor]:
        """Losses [B] of actor and critic (PPO's), and of the discriminator: the cross-entropy of telling them apart."""
        expert, agent = self._pair(self.expert_obs, self.expert_action), self._pair(s, a)
        with tf.GradientTape() as tape:
            tape.watch([expert, agent])
            expert_odds, agent_odds = self.discriminator(expert)[:, 0], self.discriminator(agent)[:, 0]
            both = tf.reduce_sum(expert_odds) + tf.reduce_sum(agent_odds)
        self.report(expert_log_odds=expert_odds, agent_log_odds=agent_odds)
        penalty = tf.add_n([tf.reduce_sum(tf.square(slope), axis=1) for slope in tape.gradient(both, [expert, agent])])
        telling_apart = tf.nn.softplus(-expert_odds) + tf.nn.softplus(agent_odds)
        return [super().__call__(s, a, next_s, r, d), telling_apart + 0.5 * self.gradient_penalty * penalty]
