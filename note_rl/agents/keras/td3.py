"""Twin delayed deep deterministic policy gradient in Keras (Fujimoto et al. 2018, https://arxiv.org/abs/1802.09477)."""

from collections.abc import Sequence

import tensorflow as tf

from note_rl.agents.keras.networks import MLP, MakeNetwork, QNetwork, TanhActor, soft_update
from note_rl.agents.spaces import continuous_spaces
from note_rl.environments import EnvLike
from note_rl.learners.numpy_policy import DenseLayer
from note_rl.rl import RL


class TD3(RL):
    """`DDPG` with the smaller of two critics' values, smoothed targets and a delayed actor.

    The actor learns only in the gradient steps after which targets are updated: every 2, which is the delay of the
    paper, unless set() is given another `update_batches`.

    Args:
        hidden_size: Width of the hidden layers, one number or one per layer; a single number means two layers.
        env: Environment, id, list or factory.
        network: Makes a network from (input shape, number of outputs); None: an `MLP` of `hidden_size`.
        critic_network: The same for the critic; None: as `network`.
        gamma: Discount of one step.
        tau: Share of the online parameters taken over at each target update.
        target_noise: Deviation of the noise on the target's action, in units of half the action's range.
        noise_clip: Where that noise is cut.
        frame_stack: Frames that are shown together; the same as in set().
        device: Where the networks live, as TensorFlow names it.
    """

    on_policy = False
    action_kinds = ("bounded",)
    reads_triplets = False
    groups_at_sync = (0,)
    default_update_batches = 2

    def __init__(
        self,
        hidden_size: int | Sequence[int] = (400, 300),
        *,
        env: EnvLike = "Pendulum-v1",
        network: MakeNetwork | None = None,
        critic_network: MakeNetwork | None = None,
        gamma: float = 0.99,
        tau: float = 0.005,
        target_noise: float = 0.2,
        noise_clip: float = 0.5,
        frame_stack: int = 1,
        device: str = "cpu",
    ) -> None:
        super().__init__()
        spaces = continuous_spaces(env, "TD3", frame_stack)
        hidden = (hidden_size, hidden_size) if isinstance(hidden_size, int) else hidden_size
        make = network or (lambda shape, outputs: MLP(shape, outputs, hidden))
        make_critic = critic_network or make
        self.env = env
        self.gamma = gamma
        self.tau = tau
        self.target_noise = target_noise
        self.noise_clip = noise_clip
        self.frame_stack = frame_stack
        with tf.device(device):
            self.actor, self.target_actor = TanhActor(make, spaces), TanhActor(make, spaces)
            self.critic_1, self.target_critic_1 = QNetwork(make_critic, spaces), QNetwork(make_critic, spaces)
            self.critic_2, self.target_critic_2 = QNetwork(make_critic, spaces), QNetwork(make_critic, spaces)
        self._move_targets(1.0)
        self.param = [
            self.actor.trainable_variables,
            [*self.critic_1.trainable_variables, *self.critic_2.trainable_variables],
        ]
        self.normal_inputs = {"next_noise": (spaces.action_size,)}
        self.next_noise: tf.Tensor
        self.discount: tf.Tensor

    def action(self, s: tf.Tensor) -> tf.Tensor:
        """Actions [B, A]."""
        return self.actor(s)

    def _smoothed_target_action(self, next_s: tf.Tensor) -> tf.Tensor:
        """mu'(s') plus clipped noise, within the bounds [B, A] (eq. 14)."""
        noise = tf.clip_by_value(self.next_noise * self.target_noise, -self.noise_clip, self.noise_clip)
        centre, scale = self.target_actor.centre, self.target_actor.scale
        a = self.target_actor(next_s) + noise * scale
        return tf.clip_by_value(a, centre - scale, centre + scale)

    def __call__(self, s: tf.Tensor, a: tf.Tensor, next_s: tf.Tensor, r: tf.Tensor, d: tf.Tensor) -> list[tf.Tensor]:
        """Losses [B] of actor, -Q_1(s, mu(s)), and critics, the sum of both squared errors."""
        next_a = self._smoothed_target_action(next_s)
        next_q = tf.minimum(self.target_critic_1(next_s, next_a), self.target_critic_2(next_s, next_a))
        target = tf.stop_gradient(r + self.discount * next_q)  # [B]
        q = self.critic_1(s, a)
        error_1 = q - target
        error_2 = self.critic_2(s, a) - target
        self.prioritized_replay.update(0.5 * (tf.abs(error_1) + tf.abs(error_2)))
        self.report(q_mean=q)
        return [-self.critic_1(s, self.actor(s)), tf.square(error_1) + tf.square(error_2)]

    def update_param(self) -> None:
        """Moves the targets towards the online networks."""
        self._move_targets(self.tau)

    def _move_targets(self, tau: float) -> None:
        soft_update(self.target_actor, self.actor, tau)
        soft_update(self.target_critic_1, self.critic_1, tau)
        soft_update(self.target_critic_2, self.critic_2, tau)

    def acting_layers(self) -> list[DenseLayer] | None:
        """The actor's layers, if its network consists of dense ones."""
        return self.actor.dense_layers()
