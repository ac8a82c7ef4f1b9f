"""Double DQN in Keras (van Hasselt et al. 2016, https://arxiv.org/abs/1509.06461)."""

import tensorflow as tf

from note_rl.agents.double_dqn import DoubleDQNSettings
from note_rl.agents.dqn.keras import DQN
from note_rl.agents.shared.keras.choices import where_allowed
from note_rl.agents.shared.keras.distributions import at_action
from note_rl.learners.keras.modes import evaluating


class DoubleDQN(DoubleDQNSettings, DQN):
    def next_value(self, next_s: tf.Tensor) -> tf.Tensor:
        """Q_target(s', argmax_a Q(s', a)) [B] (the target of the paper's section on Double DQN)."""
        with evaluating():
            chosen = tf.argmax(where_allowed(self.q_net(next_s), self.next_action_mask), axis=1)  # [B]
        return at_action(self.target_q_net(next_s), chosen)
