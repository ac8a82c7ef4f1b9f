"""Deep Q-network in Keras (Mnih et al. 2015, https://doi.org/10.1038/nature14236)."""

from collections.abc import Sequence

import tensorflow as tf

from note_rl.agents.keras.choices import where_allowed
from note_rl.agents.keras.distributions import at_action
from note_rl.agents.keras.networks import MLP, MakeNetwork, soft_update
from note_rl.agents.spaces import discrete_spaces
from note_rl.environments import EnvLike
from note_rl.learners.numpy_policy import DenseLayer, dense_layers_of
from note_rl.rl import RL


class DQN(RL):
    """Q-learning with a replay pool and a target network, for discrete actions.

    Plain, n-step or prioritized is a matter of the replay: targets use `self.discount`, and every loss hands its TD
    errors over.

    Args:
        state_dim: Length of an observation; None: read from the environment, as action_dim.
        hidden_size: Width of the hidden layers, one number or one per layer; a single number means two layers.
        action_dim: Number of actions.
        env: Environment, id, list or factory.
        network: Makes a network from (observation shape, number of outputs); None: an `MLP` of `hidden_size`.
        gamma: Discount of one step.
        tau: Share of the online parameters taken over at each target update; 1 copies.
        frame_stack: Frames that the agent is shown together, as in set().
        device: Where the networks live, as TensorFlow names it.
    """

    on_policy = False
    action_kinds = ("discrete",)
    reads_triplets = False

    def __init__(
        self,
        state_dim: int | None = None,
        hidden_size: int | Sequence[int] = (64, 64),
        action_dim: int | None = None,
        *,
        env: EnvLike = "CartPole-v1",
        network: MakeNetwork | None = None,
        gamma: float = 0.99,
        tau: float = 1.0,
        frame_stack: int = 1,
        device: str = "cpu",
    ) -> None:
        super().__init__()
        spaces = discrete_spaces(env, type(self).__name__, state_dim, action_dim, frame_stack)
        hidden = (hidden_size, hidden_size) if isinstance(hidden_size, int) else hidden_size
        make = network or (lambda shape, outputs: MLP(shape, outputs, hidden))
        self.env = env
        self.gamma = gamma
        self.tau = tau
        self.frame_stack = frame_stack
        with tf.device(device):
            self.q_net = make(spaces.obs_shape, spaces.num_actions)
            self.target_q_net = make(spaces.obs_shape, spaces.num_actions)
        soft_update(self.target_q_net, self.q_net, 1.0)
        self.param = self.q_net.trainable_variables
        self.discount: tf.Tensor

    def action(self, s: tf.Tensor) -> tf.Tensor:
        """Q-values [B, A]."""
        return self.q_net(s)

    def next_value(self, next_s: tf.Tensor) -> tf.Tensor:
        """What the states that follow are worth [B]: max_a Q_target(s', a), of the actions allowed there."""
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
