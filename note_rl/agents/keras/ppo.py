"""Proximal policy optimization in Keras (Schulman et al. 2017, https://arxiv.org/abs/1707.06347)."""

from collections.abc import Sequence

import tensorflow as tf

from note_rl.agents.keras.networks import MLP, MakeNetwork
from note_rl.agents.spaces import discrete_spaces
from note_rl.environments import EnvLike
from note_rl.learners.mirror import DenseLayer
from note_rl.rl import RL


class PPO(RL):
    """Clipped policy gradient with generalised advantages, for discrete actions.

    Args:
        state_dim: Length of an observation; None: read from the environment, as action_dim.
        hidden_size: Width of the hidden layers, one number or one per layer; a single number means two layers.
        action_dim: Number of actions.
        env: Environment, id, list or factory.
        network: Makes a network from (observation shape, number of outputs); None: a tanh `MLP` of `hidden_size`.
        gamma: Discount of one step.
        gae_lambda: Weight of long against short returns in the advantage.
        clip: How far the probability ratio may leave 1 before the gradient is cut.
        entropy_coef: Weight of the entropy bonus.
        value_coef: Weight of the value loss.
        normalise_advantage: Whether advantages get mean 0 and deviation 1 over the rollout.
        device: Where the networks live, as TensorFlow names it.
    """

    def __init__(
        self,
        state_dim: int | None = None,
        hidden_size: int | Sequence[int] = (64, 64),
        action_dim: int | None = None,
        *,
        env: EnvLike = "CartPole-v1",
        network: MakeNetwork | None = None,
        gamma: float = 0.99,
        gae_lambda: float = 0.95,
        clip: float = 0.2,
        entropy_coef: float = 0.0,
        value_coef: float = 0.5,
        normalise_advantage: bool = True,
        device: str = "cpu",
    ) -> None:
        super().__init__()
        spaces = discrete_spaces(env, "PPO", state_dim, action_dim)
        hidden = (hidden_size, hidden_size) if isinstance(hidden_size, int) else hidden_size
        make = network or (lambda shape, outputs: MLP(shape, outputs, hidden, activation="tanh"))
        self.env = env
        self.gamma = gamma
        self.gae_lambda = gae_lambda
        self.clip = clip
        self.entropy_coef = entropy_coef
        self.value_coef = value_coef
        self.normalise_advantage = normalise_advantage
        with tf.device(device):
            self.actor = make(spaces.obs_shape, spaces.num_actions)
            self.critic = make(spaces.obs_shape, 1)
        for net, output_gain in ((self.actor, 0.01), (self.critic, 1.0)):
            if isinstance(net, MLP):
                net.start_orthogonal(output_gain)
        self.param = [self.actor.trainable_variables, self.critic.trainable_variables]
        self.log_prob_old: tf.Tensor
        self.advantage: tf.Tensor
        self.return_: tf.Tensor

    def action(self, s: tf.Tensor) -> tf.Tensor:
        """Probabilities [B, A]."""
        return tf.nn.softmax(self.actor(s))

    def value(self, s: tf.Tensor) -> tf.Tensor:
        """V(s) [B]."""
        return self.critic(s)[:, 0]

    def __call__(self, s: tf.Tensor, a: tf.Tensor, next_s: tf.Tensor, r: tf.Tensor, d: tf.Tensor) -> tf.Tensor:
        """Loss [B]: clipped surrogate (eq. 7), squared value error, minus the entropy bonus (eq. 9)."""
        log_probs = tf.nn.log_softmax(self.actor(s))  # [B, A]
        ratio = tf.exp(tf.gather(log_probs, a, axis=1, batch_dims=1) - self.log_prob_old)
        clipped = tf.clip_by_value(ratio, 1.0 - self.clip, 1.0 + self.clip)
        surrogate = tf.minimum(ratio * self.advantage, clipped * self.advantage)
        entropy = -tf.reduce_sum(tf.exp(log_probs) * log_probs, axis=-1)
        value_error = tf.square(self.value(s) - self.return_)
        return -surrogate + self.value_coef * value_error - self.entropy_coef * entropy

    def acting_layers(self) -> list[DenseLayer] | None:
        """The actor's layers, if it is an `MLP`."""
        return self.actor.dense_layers("softmax") if isinstance(self.actor, MLP) else None
