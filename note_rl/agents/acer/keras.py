"""Actor-critic with experience replay in Keras, for discrete actions (Wang et al. 2016).

Equations and algorithms are those of https://arxiv.org/abs/1611.01224.
"""

import keras
import tensorflow as tf

from note_rl.agents.acer import ACERSettings
from note_rl.agents.declaration import Given
from note_rl.agents.shared.keras.choices import where_allowed
from note_rl.agents.shared.keras.distributions import at_action
from note_rl.agents.shared.keras.encoded import EncodedNetwork
from note_rl.agents.shared.keras.layered import LayeredNetwork
from note_rl.agents.shared.keras.networks import MLP, mlp, soft_update
from note_rl.agents.shared.spaces import discrete_spaces
from note_rl.learners.keras.modes import evaluating
from note_rl.learners.numpy_policy import DenseLayer, dense_layers_of
from note_rl.policy import Policy, SoftmaxPolicy
from note_rl.rl import RL


class ACER(ACERSettings, RL):
    reads_triplets = False

    def make_networks(self, given: Given) -> None:
        """The policy, its average and the action values."""
        spaces = discrete_spaces(self.env, type(self).__name__, given.state_dim, given.action_dim, self.frame_stack)
        make = given.network or mlp(given.hidden_size, "tanh")
        with tf.device(given.device):
            self.actor = make(spaces.obs_shape, spaces.num_actions)
            self.critic = make(spaces.obs_shape, spaces.num_actions)
            self.average_actor = make(spaces.obs_shape, spaces.num_actions)
        for net, output_gain in ((self.actor, 0.01), (self.critic, 1.0)):
            if isinstance(net, MLP | LayeredNetwork | EncodedNetwork):
                net.start_orthogonal(output_gain)
        soft_update(self.average_actor, self.actor, 1.0)
        self.param = [list(self.actor.trainable_variables), list(self.critic.trainable_variables)]
        self.behaviour: tf.Tensor
        self.discount: tf.Tensor
        self.ended: tf.Tensor

    def action(self, s: tf.Tensor) -> tf.Tensor:
        """Probabilities [B, A]."""
        return tf.nn.softmax(self.actor(s))

    def __call__(self, s: tf.Tensor, a: tf.Tensor, next_s: tf.Tensor, r: tf.Tensor, d: tf.Tensor) -> tf.Tensor:
        """Losses [B] of sequences: means over their steps, s [B, T, *obs] and r [B, T] (algorithm 2).

        The policy's loss has the gradient that `policy_gradient` says, as f is multiplied by it. The critic's is
        (Q_ret - Q(s, a))^2 / 2.
        """
        mask, next_mask = self.action_mask, self.next_action_mask
        f = tf.nn.softmax(where_allowed(_of_steps(self.actor, s), mask))  # [B, T, A], as all that is not summed over A
        q = _of_steps(self.critic, s)
        q_chosen = at_action(q, a)  # [B, T]
        with evaluating():
            next_f = tf.nn.softmax(where_allowed(_of_steps(self.actor, next_s), next_mask))
            next_q = _of_steps(self.critic, next_s)
        ratio = f / (self.behaviour + self.epsilon)
        next_value = tf.reduce_sum(next_f * next_q, axis=-1)
        q_ret = tf.stop_gradient(retrace(r, self.discount, self.ended, next_value, q_chosen, at_action(ratio, a)))
        gradient = self.policy_gradient(f, q, a, ratio, q_ret)
        if self.trust_region:
            average = tf.nn.softmax(where_allowed(_of_steps(self.average_actor, s), mask))
            gradient = within_trust_region(gradient, f, average, self.delta, self.epsilon)
        policy_loss = -tf.reduce_sum(tf.stop_gradient(gradient) * f, axis=-1)
        value_loss = 0.5 * tf.square(q_ret - q_chosen)
        entropy = -tf.reduce_sum(f * tf.math.log(f + self.epsilon), axis=-1)
        self.report(q_mean=q_chosen, entropy=entropy, value_loss=value_loss)
        return tf.reduce_mean(policy_loss + self.value_coef * value_loss, axis=1)

    def policy_gradient(
        self, f: tf.Tensor, q: tf.Tensor, a: tf.Tensor, ratio: tf.Tensor, q_ret: tf.Tensor
    ) -> tf.Tensor:
        """Direction of ascent in the probabilities f [B, T, A], as d/df of this (eq. 9, entropy bonus).

        min(c, rho) log f(a) (Q_ret - V) + sum_b [1 - c / rho(b)]_+ f(b) log f(b) (Q(b) - V) + entropy_coef * H(f),

        where f(b), unlike log f(b), counts as a number. V = sum_b f(b) Q(b).

        Args:
            f: pi(.|s). [B, T, A]
            q: Q(s, .). [B, T, A]
            a: The actions taken. [B, T]
            ratio: rho = pi / mu of all actions. [B, T, A]
            q_ret: Retrace targets. [B, T]
        """
        value = tf.reduce_sum(f * q, axis=-1)  # [B, T]
        weight = tf.minimum(at_action(ratio, a), self.importance_c)
        taken = tf.one_hot(a, f.shape[-1]) * (weight * (q_ret - value))[..., None] / (f + self.epsilon)
        made_up = tf.nn.relu(1.0 - self.importance_c / (ratio + self.epsilon)) * (q - value[..., None])
        entropy = -(tf.math.log(f + self.epsilon) + 1.0)
        return taken + made_up + self.entropy_coef * entropy

    def update_param(self) -> None:
        """Moves the average policy towards the policy (section 3.3)."""
        soft_update(self.average_actor, self.actor, 1.0 - self.ema_alpha)

    def default_policy(self) -> Policy:
        """Until set() says otherwise."""
        return SoftmaxPolicy()

    def acting_layers(self) -> list[DenseLayer] | None:
        """The actor's layers, if it consists of dense ones."""
        return dense_layers_of(self.actor, "softmax")


def retrace(
    reward: tf.Tensor,
    discount: tf.Tensor,
    ended: tf.Tensor,
    next_value: tf.Tensor,
    q_chosen: tf.Tensor,
    ratio: tf.Tensor,
) -> tf.Tensor:
    """Returns targets of action values along sequences, [B, T] (eq. 5; Munos et al. 2016, https://arxiv.org/abs/1606.02647).

    Q_ret_t = r_t + discount_t * (V(s_t+1) + min(1, rho_t+1) * (Q_ret_t+1 - Q_t+1)), where the last term is left out at
    the end of an episode and of the sequence. A time limit is such an end, with the value of what was seen last.

    Args:
        reward: r. [B, T]
        discount: gamma, or 0 where the task ended. [B, T]
        ended: 1 where the episode ended. [B, T]
        next_value: V of the true next observation. [B, T]
        q_chosen: Q of the action taken. [B, T]
        ratio: rho of the action taken. [B, T]
    """
    one_step_error = tf.unstack(reward + discount * next_value - q_chosen, axis=1)
    trace = tf.unstack((discount * (1.0 - ended))[:, :-1] * tf.minimum(ratio[:, 1:], 1.0), axis=1)
    errors = [one_step_error[-1]]  # Q_ret - Q, from the last step to the first
    for error, carried in zip(one_step_error[-2::-1], trace[::-1], strict=True):
        errors.append(error + carried * errors[-1])
    return q_chosen + tf.stack(errors[::-1], axis=1)


def within_trust_region(
    gradient: tf.Tensor, f: tf.Tensor, average: tf.Tensor, delta: float, epsilon: float
) -> tf.Tensor:
    """The nearest to a gradient g along which KL(average || f) grows by no more than delta: eq. 12 [..., A].

    g - max(0, (k.g - delta) / |k|^2) k,  k = d/df KL(average || f) = -average / f

    Args:
        gradient: g, by the probabilities f. [..., A]
        f: The policy. [..., A]
        average: The average policy. [..., A]
        delta: Bound of k.g.
        epsilon: Added to f.
    """
    k = -average / (f + epsilon)
    along = tf.reduce_sum(k * gradient, axis=-1, keepdims=True)
    excess = (along - delta) / tf.reduce_sum(tf.square(k), axis=-1, keepdims=True)
    return gradient - tf.nn.relu(excess) * k


def _of_steps(network: keras.Model, s: tf.Tensor) -> tf.Tensor:
    """Outputs [B, T, A] of a network for each step of sequences [B, T, *obs]."""
    outputs = network(tf.reshape(s, (-1, *s.shape[2:])))
    return tf.reshape(outputs, (*s.shape[:2], -1))
