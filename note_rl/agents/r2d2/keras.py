"""Recurrent replay for Q-learning in Keras (Kapturowski et al. 2019)."""

import tensorflow as tf

from note_rl.agents.declaration import Given
from note_rl.agents.r2d2 import RESCALING, R2D2Settings, needs_a_memory, steps_of_burn_in
from note_rl.agents.shared.keras.choices import where_allowed
from note_rl.agents.shared.keras.distributions import at_action
from note_rl.agents.shared.keras.networks import soft_update
from note_rl.agents.shared.keras.recurrent import (
    RecurrentNetwork,
    State,
    last_states,
    recurrent_network,
    states_behind_steps,
)
from note_rl.agents.shared.memories import zeros_of
from note_rl.agents.shared.spaces import discrete_spaces
from note_rl.learners.keras.modes import evaluating
from note_rl.learners.numpy_memory import ActingMemory
from note_rl.learners.numpy_policy import dense_layers_of
from note_rl.rl import RL
from note_rl.types import Array


class R2D2(R2D2Settings, RL):
    reads_triplets = False

    def make_networks(self, given: Given) -> None:
        """The online network, and a copy for targets."""
        spaces = discrete_spaces(self.env, type(self).__name__, None, None, self.frame_stack)
        make = given.network or recurrent_network
        with tf.device(given.device):
            self.q_net = make(spaces.obs_shape, spaces.num_actions)
            self.target_q_net = make(spaces.obs_shape, spaces.num_actions)
        if not (isinstance(self.q_net, RecurrentNetwork) and isinstance(self.target_q_net, RecurrentNetwork)):
            raise needs_a_memory(self)
        soft_update(self.target_q_net, self.q_net, 1.0)
        self.param = self.q_net.trainable_variables
        self.discount: tf.Tensor
        self.ended: tf.Tensor

    def initial_state(self, num_envs: int) -> dict[str, Array]:
        """Zeros."""
        return zeros_of({"memory": self.q_net.memory.state_size}, num_envs)

    def action(self, s: tf.Tensor, state: State) -> tuple[tf.Tensor, dict[str, tf.Tensor]]:
        """Q-values [B, A], and the state behind s."""
        features, after = self.q_net.memory.step(s, state["memory"])
        return self.q_net.head(features), {"memory": after}

    def __call__(self, s: tf.Tensor, a: tf.Tensor, next_s: tf.Tensor, r: tf.Tensor, d: tf.Tensor) -> tf.Tensor:
        """Losses [B] of sequences, s [B, T, *obs] and r [B, T]: means over the steps behind the burn-in.

        The loss of a step is half the squared distance of Q(s, a) to `returns`. The Huber loss of DQN leads to their
        median, which takes no notice of an end within the next steps as long as that is less likely than not.
        """
        memories = (self.q_net.memory, self.target_q_net.memory)
        states = [self.state_before, self.state_before]
        num_first = steps_of_burn_in(self.burn_in, s.shape[1])
        if num_first:
            seen, starts = _flat(s[:, :num_first]), _flat(self.episode_start[:, :num_first])
            states = [tf.stop_gradient(one) for one in last_states(memories, seen, states, starts)]
        r, discount, ended = (one[:, num_first:] for one in (r, self.discount, self.ended))  # [B, L]
        s, a, next_s, starts = (_flat(one[:, num_first:]) for one in (s, a, next_s, self.episode_start))
        mask = None if self.next_action_mask is None else _flat(self.next_action_mask[:, num_first:])
        online, target = states_behind_steps(memories, s, states, starts)
        q = at_action(self.q_net.head(online[:, : self.q_net.memory.units]), a)
        value = tf.reshape(self.unscaled(self.next_value(next_s, online, target, mask)), r.shape)
        aim = self.scaled(self.returns(r, discount, ended, value))
        self.report(q_mean=self.unscaled(q))
        return 0.5 * tf.reduce_mean(tf.square(tf.reshape(q, r.shape) - tf.stop_gradient(aim)), axis=1)

    def returns(self, r: tf.Tensor, discount: tf.Tensor, ended: tf.Tensor, value: tf.Tensor) -> tf.Tensor:
        """Targets [B, L]: rewards of up to `return_steps` steps, and the value behind the last of them.

        There are fewer where the episode or the sequence ends before.

        Args:
            r: Rewards. [B, L]
            discount: Of the value behind each step; 0 where the task ended. [B, L]
            ended: 1 where the episode ended. [B, L]
            value: Of what is seen behind each step. [B, L]
        """
        found = r + discount * value
        for _ in range(1, min(self.return_steps, r.shape[1])):
            later = tf.concat((found[:, 1:], value[:, -1:]), axis=1)
            found = r + discount * tf.where(ended > 0.5, value, later)
        return found

    def next_value(self, next_s: tf.Tensor, online: tf.Tensor, target: tf.Tensor, mask: tf.Tensor | None) -> tf.Tensor:
        """Values of the next observations: Q_target(s', argmax_a Q(s', a)), each network with its own state.

        Args:
            next_s: Those behind each step; the last one of the episode where that ended. [N, *obs]
            online: The states in which the online network sees them. [N, S]
            target: The same of the target network. [N, S]
            mask: Which actions are allowed there; None: all. [N, A]
        """
        with evaluating():
            features, _ = self.q_net.memory.step(next_s, tf.stop_gradient(online))
            best = tf.argmax(where_allowed(self.q_net.head(features), mask), axis=1)
        features, _ = self.target_q_net.memory.step(next_s, tf.stop_gradient(target))
        return at_action(self.target_q_net.head(features), best)

    def scaled(self, values: tf.Tensor) -> tf.Tensor:
        """h(x) = sign(x) (sqrt(|x| + 1) - 1) + e x, if values are rescaled (Pohlen et al. 2018, proposition A.2)."""
        if not self.rescale:
            return values
        return tf.sign(values) * (tf.sqrt(tf.abs(values) + 1.0) - 1.0) + RESCALING * values

    def unscaled(self, values: tf.Tensor) -> tf.Tensor:
        """The inverse of h, in a form that rounds little."""
        if not self.rescale:
            return values
        more = tf.abs(values) + 1.0 + RESCALING
        root = tf.sqrt(1.0 + 4.0 * RESCALING * more)
        return tf.sign(values) * (tf.square(2.0 * more / (root + 1.0)) - 1.0)

    def update_param(self) -> None:
        """Moves the target network towards the online one."""
        soft_update(self.target_q_net, self.q_net, self.tau)

    def acting_memory(self) -> ActingMemory | None:
        """The memory of the online network, and the layers behind it, if there are but dense ones around the cell."""
        cell, layers = self.q_net.memory.acting_cell(), dense_layers_of(self.q_net.head)
        return None if cell is None or layers is None else ActingMemory({"memory": cell}, layers)


def _flat(values: tf.Tensor) -> tf.Tensor:
    """[B, L, ...] -> [B * L, ...]."""
    return tf.reshape(values, (-1, *values.shape[2:]))
