"""Multi-agent deep deterministic policy gradient in Keras (Lowe et al. 2017, https://arxiv.org/abs/1706.02275)."""

from itertools import chain
from typing import Any

import keras
import tensorflow as tf

from note_rl.agents.declaration import Given
from note_rl.agents.maddpg import MADDPGSettings
from note_rl.agents.maddpg.joint_spaces import joint_spaces
from note_rl.agents.shared.keras.networks import MakeNetwork, mlp, soft_update
from note_rl.learners.keras.modes import evaluating
from note_rl.rl import RL

_FORBIDDEN = -1e9  # logit of an action that an agent does not have


class MADDPG(MADDPGSettings, RL):
    reads_triplets = False

    def make_networks(self, given: Given) -> None:
        """An actor and a critic per agent, and a copy of each for targets."""
        spaces = joint_spaces(self.env, "MADDPG")
        make = given.network or mlp(given.hidden_size)
        make_critic = given.critic_network or make
        self.num_agents = spaces.num_agents
        self.action_size = spaces.action_size
        self.spaces = spaces
        self.discrete = spaces.allowed is not None
        seen = spaces.num_agents if self.centralised else 1
        critic_shape = (seen * (spaces.obs_size + spaces.action_size),)

        def networks(make: MakeNetwork, shape: tuple[int, ...], outputs: int) -> list[keras.Model]:
            return [make(shape, outputs) for _ in range(spaces.num_agents)]

        with tf.device(given.device):
            self.actors = networks(make, (spaces.obs_size,), spaces.action_size)
            self.critics = networks(make_critic, critic_shape, 1)
            self.target_actors = networks(make, (spaces.obs_size,), spaces.action_size)
            self.target_critics = networks(make_critic, critic_shape, 1)
        self._move_targets(1.0)
        groups = [net.trainable_variables for net in (*self.actors, *self.critics)]
        self.param = [list(chain(*half)) for half in _halves(groups)] if self.grouped else groups
        self.discount: tf.Tensor

    def action(self, s: tf.Tensor, i: int) -> tf.Tensor:
        """Output of actor i in states [B, *obs]: probabilities [B, A] of discrete actions, else the action [B, A]."""
        return self._act(self.actors, tf.reshape(s, (tf.shape(s)[0], -1)), i)

    def _act(self, actors: list[keras.Model], s: tf.Tensor, i: int) -> tf.Tensor:
        outputs = actors[i](s)
        if self.spaces.allowed is not None:
            return tf.nn.softmax(tf.where(self.spaces.allowed[i], outputs, _FORBIDDEN))
        assert self.spaces.low is not None
        assert self.spaces.high is not None
        low, high = self.spaces.low[i], self.spaces.high[i]
        return low + (high - low) * 0.5 * (1.0 + tf.tanh(outputs))

    def _chosen(self, actors: list[keras.Model], s: tf.Tensor) -> tf.Tensor:
        """Greedy actions of all agents, in the form that critics take: [B, n, A]."""
        actions = [self._act(actors, s[:, i], i) for i in range(self.num_agents)]
        if self.discrete:
            actions = [tf.one_hot(tf.argmax(p, -1), self.action_size) for p in actions]
        return tf.stop_gradient(tf.stack(actions, 1))

    def _value(self, critics: list[keras.Model], s: tf.Tensor, a: tf.Tensor, i: int) -> tf.Tensor:
        """Estimated values of agent i, [B], for states [B, n, obs] and actions [B, n, A]."""
        if not self.centralised:
            s, a = s[:, i : i + 1], a[:, i : i + 1]
        return critics[i](tf.concat([tf.cast(_flat(s), a.dtype), _flat(a)], 1))[:, 0]  # as torch.cat does

    def __call__(self, s: tf.Tensor, a: tf.Tensor, next_s: tf.Tensor, r: tf.Tensor, d: tf.Tensor) -> list[tf.Tensor]:
        """Losses [B] of every actor (eq. 5 and 6) and every critic (eq. 6), or their sums if `grouped`."""
        s, next_s = (tf.reshape(x, (x.shape[0], self.num_agents, self.spaces.obs_size)) for x in (s, next_s))
        if self.discrete:
            a = tf.one_hot(a, self.action_size)
        with evaluating():
            now, then = self._chosen(self.actors, s), self._chosen(self.target_actors, next_s)
        values = [self._value(self.target_critics, next_s, then, i) for i in range(self.num_agents)]
        targets = tf.stop_gradient(r + self.discount * tf.stack(values, 1))  # [B, n]
        q = [self._value(self.critics, s, a, i) for i in range(self.num_agents)]
        errors = [q[i] - targets[:, i] for i in range(self.num_agents)]
        self.prioritized_replay.update(tf.reduce_mean(tf.abs(tf.stack(errors, 1)), 1))
        self.report(q_mean=tf.stack(q))
        losses = [
            *(self._actor_loss(s, now, i) for i in range(self.num_agents)),
            *(tf.square(error) for error in errors),
        ]
        return [tf.add_n(half) for half in _halves(losses)] if self.grouped else losses

    def _actor_loss(self, s: tf.Tensor, a: tf.Tensor, i: int) -> tf.Tensor:
        """[B]: minus the value of what actor i does, where the others do `a` [B, n, A]."""
        own = self._act(self.actors, s[:, i], i)  # [B, A]
        if not self.discrete:
            return -self._value(self.critics, s, _replaced(a, i, own), i)
        with evaluating():
            values = tf.stop_gradient(self._values_of_choices(s, a, i))
        entropy = -tf.reduce_sum(own * tf.math.log(tf.maximum(own, 1e-9)), -1)
        return -tf.reduce_sum(own * values, -1) - self.entropy_coef * entropy

    def _values_of_choices(self, s: tf.Tensor, a: tf.Tensor, i: int) -> tf.Tensor:
        """Estimated values of agent i for each of its actions, [B, A], where the others do `a` [B, n, A]."""
        size = self.action_size
        choices = tf.tile(tf.eye(size), (s.shape[0], 1))  # [B*A, A]
        joint = _replaced(tf.repeat(a, size, 0), i, choices)
        return tf.reshape(self._value(self.critics, tf.repeat(s, size, 0), joint, i), (-1, size))

    def update_param(self) -> None:
        """Moves the targets towards the online networks."""
        self._move_targets(self.tau)

    def _move_targets(self, tau: float) -> None:
        for target, online in zip(
            (*self.target_actors, *self.target_critics), (*self.actors, *self.critics), strict=True
        ):
            soft_update(target, online, tau)


def _flat(x: tf.Tensor) -> tf.Tensor:
    """[B, n, size] -> [B, n * size]."""
    return tf.reshape(x, (x.shape[0], x.shape[1] * x.shape[2]))


def _replaced(a: tf.Tensor, i: int, own: tf.Tensor) -> tf.Tensor:
    """Actions [B, n, A] with those of agent i replaced by [B, A]."""
    return tf.concat([a[:, :i], own[:, None], a[:, i + 1 :]], 1)


def _halves(items: list[Any]) -> list[list[Any]]:
    """Actors' and critics' parts."""
    middle = len(items) // 2
    return [items[:middle], items[middle:]]
