"""Deep deterministic policy gradient in Keras (Lillicrap et al. 2016, https://arxiv.org/abs/1509.02971)."""

from collections.abc import Sequence

import tensorflow as tf

from note_rl.agents.keras.networks import MLP, MakeNetwork, QNetwork, TanhActor, soft_update
from note_rl.agents.spaces import continuous_spaces
from note_rl.environments import EnvLike
from note_rl.learners.numpy_policy import DenseLayer
from note_rl.rl import RL


class DDPG(RL):
    """An actor that climbs the critic's values, for actions that are numbers within bounds.

    Args:
        hidden_size: Width of the hidden layers, one number or one per layer; a single number means two layers.
        env: Environment, id, list or factory.
        network: Makes a network from (input shape, number of outputs); None: an `MLP` of `hidden_size`.
        critic_network: The same for the critic; None: as `network`.
        gamma: Discount of one step.
        tau: Share of the online parameters taken over at each target update.
        frame_stack: Frames that are shown together; the same as in set().
        device: Where the networks live, as TensorFlow names it.
    """

    on_policy = False
    action_kinds = ("bounded",)
    reads_triplets = False

    def __init__(
        self,
        hidden_size: int | Sequence[int] = (400, 300),
        *,
        env: EnvLike = "Pendulum-v1",
        network: MakeNetwork | None = None,
        critic_network: MakeNetwork | None = None,
        gamma: float = 0.99,
        tau: float = 0.005,
        frame_stack: int = 1,
        device: str = "cpu",
    ) -> None:
        super().__init__()
        spaces = continuous_spaces(env, "DDPG", frame_stack)
        hidden = (hidden_size, hidden_size) if isinstance(hidden_size, int) else hidden_size
        make = network or (lambda shape, outputs: MLP(shape, outputs, hidden))
        make_critic = critic_network or make
        self.env = env
        self.gamma = gamma
        self.tau = tau
        self.frame_stack = frame_stack
        with tf.device(device):
            self.actor, self.target_actor = TanhActor(make, spaces), TanhActor(make, spaces)
            self.critic, self.target_critic = QNetwork(make_critic, spaces), QNetwork(make_critic, spaces)
        soft_update(self.target_actor, self.actor, 1.0)
        soft_update(self.target_critic, self.critic, 1.0)
        self.param = [self.actor.trainable_variables, self.critic.trainable_variables]
        self.discount: tf.Tensor

    def action(self, s: tf.Tensor) -> tf.Tensor:
        """Actions [B, A]."""
        return self.actor(s)

    def __call__(self, s: tf.Tensor, a: tf.Tensor, next_s: tf.Tensor, r: tf.Tensor, d: tf.Tensor) -> list[tf.Tensor]:
        """Losses [B] of actor and critic: -Q(s, mu(s)), and (Q(s, a) - r - discount * Q'(s', mu'(s')))^2."""
        target = r + self.discount * self.target_critic(next_s, self.target_actor(next_s))  # [B]
        q = self.critic(s, a)
        error = q - tf.stop_gradient(target)
        self.prioritized_replay.update(error)
        self.report(q_mean=q)
        return [-self.critic(s, self.actor(s)), tf.square(error)]

    def update_param(self) -> None:
        """Moves the targets towards the online networks."""
        soft_update(self.target_actor, self.actor, self.tau)
        soft_update(self.target_critic, self.critic, self.tau)

    def acting_layers(self) -> list[DenseLayer] | None:
        """The actor's layers, if its network consists of dense ones."""
        return self.actor.dense_layers()
