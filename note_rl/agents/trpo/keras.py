"""Trust region policy optimization in Keras (Schulman et al. 2015, https://arxiv.org/abs/1502.05477)."""

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from note_rl.agents.actor_critic.keras import ActorCritic
from note_rl.agents.declaration import Given
from note_rl.agents.shared.keras.distributions import Distribution
from note_rl.agents.shared.keras.second_order import conjugate_gradient, hessian_product, in_a_row
from note_rl.agents.trpo import TRPOSettings
from note_rl.learners.keras.variables import not_frozen

_SMALL = 1e-8  # keeps the length of a step finite where there is no gradient


class TRPO(TRPOSettings, ActorCritic):
    def make_networks(self, given: Given) -> None:
        """As `ActorCritic`, and what is remembered of the last step."""
        super().make_networks(given)
        self.normal_inputs = {"critic_order": (self.critic_iterations,)}  # whose order is that of the critic's passes
        with tf.device(given.device):
            self._last_step = tf.Variable([0.0, 0.0])  # see kl, step_fraction

    @property
    def kl(self) -> float:
        """Mean KL divergence of the policies before and after the last update; 0 where no step was found."""
        return float(self._last_step[0])

    @property
    def step_fraction(self) -> float:
        """The last step as a share of the longest that the bound would allow a quadratic KL divergence; 0: none."""
        return float(self._last_step[1])

    def update(self, batch: Any, optimizers: Sequence[Any]) -> list[tf.Tensor]:
        """Losses of policy and critic, after one step of the one and some passes of the other (algorithm 1)."""
        losses = [self._improve_policy(batch), self._fit_critic(batch, optimizers[-1])]
        self.report(approx_kl=self._last_step[0], step_fraction=self._last_step[1])
        return losses

    def _improve_policy(self, batch: Any) -> tf.Tensor:
        """One natural gradient step; returns the negative surrogate that it reaches (section 6 and appendix C)."""
        with tf.GradientTape() as tape:
            policy = self.distribution(batch.obs, batch.action_mask)
            surrogate = self._surrogate(policy, batch)
        self.report(entropy=policy.entropy())
        learning = not_frozen(self.param[0])
        if not learning:
            return -surrogate
        gradient = in_a_row(tape.gradient(surrogate, learning, unconnected_gradients="zero"))
        fisher = hessian_product(lambda: self._no_kl(batch), learning, self.cg_damping)
        direction = conjugate_gradient(fisher, gradient, self.cg_iterations, self.cg_tolerance)
        curvature = tf.reduce_sum(direction * fisher(direction))
        longest = tf.sqrt(2.0 * self.max_kl / (curvature + _SMALL)) * direction  # beta s
        return -self._search(batch, policy, surrogate, longest)

    def _no_kl(self, batch: Any) -> tf.Tensor:
        """KL divergence of the policy from itself: 0, but its Hessian is the Fisher information."""
        every = slice(None, None, self.fvp_every)
        mask = None if batch.action_mask is None else batch.action_mask[every]
        policy = self.distribution(batch.obs[every], mask)
        return tf.reduce_mean(policy.detached().kl(policy))

    def _surrogate(self, policy: Distribution, batch: Any) -> tf.Tensor:
        """Mean of pi(a|s) / pi_old(a|s) * A (eq. 14), with the entropy bonus."""
        ratio = tf.exp(policy.log_prob(batch.action) - batch.log_prob_old)
        return tf.reduce_mean(ratio * batch.advantage) + self.entropy_coef * tf.reduce_mean(policy.entropy())

    def _search(self, batch: Any, before: Distribution, surrogate: tf.Tensor, longest: tf.Tensor) -> tf.Tensor:
        """Takes the longest step, or the first shorter one, that is better and within the bound (appendix C).

        Args:
            batch: The rollout.
            before: The policies from which the step leads away.
            surrogate: What they reach.
            longest: The step, along all parameters of the policy in a row.

        Returns:
            What is reached then; if there is no such step, what was, and no parameter has changed.
        """
        learning = not_frozen(self.param[0])
        start = [tf.convert_to_tensor(parameter) for parameter in learning]
        steps = tf.split(longest, [origin.shape.num_elements() for origin in start])

        def not_found(number: tf.Tensor, fraction: tf.Tensor, reached: tf.Tensor, kl: tf.Tensor) -> tf.Tensor:
            return ~((reached > surrogate) & (kl <= self.max_kl)) & (number < self.line_search_steps)

        def attempt(number: tf.Tensor, fraction: tf.Tensor, *_: tf.Tensor) -> tuple[tf.Tensor, ...]:
            fraction = tf.where(number == 0, 1.0, self.line_search_shrink * fraction)
            for parameter, origin, step in zip(learning, start, steps, strict=True):
                parameter.assign(origin + fraction * tf.reshape(step, origin.shape))
            policy = self.distribution(batch.obs, batch.action_mask)
            return number + 1, fraction, self._surrogate(policy, batch), tf.reduce_mean(before.kl(policy))

        def go_back() -> tuple[tf.Tensor, ...]:
            for parameter, origin in zip(learning, start, strict=True):
                parameter.assign(origin)
            return tf.constant(0.0), tf.constant(0.0), surrogate

        _, fraction, reached, kl = tf.while_loop(not_found, attempt, (0, 1.0, surrogate, 0.0))
        found = (reached > surrogate) & (kl <= self.max_kl)
        kl, fraction, reached = tf.cond(found, lambda: (kl, fraction, reached), go_back)
        self._last_step.assign(tf.stack([kl, fraction]))
        return reached

    def _fit_critic(self, batch: Any, optimizer: Any) -> tf.Tensor:
        """Shuffled passes over the rollout; returns the mean loss. Each leaves out a different rest of a minibatch."""
        size = min(self.critic_batch_size, len(batch))
        used = len(batch) // size * size
        rows = tf.reshape(tf.transpose(tf.argsort(batch.critic_order, axis=0)[:used]), (-1, size))  # [K, size]
        number = rows.shape[0]

        def step(k: tf.Tensor, total: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            return k + 1, total + self.minimise(lambda: self._value_loss(batch, rows[k]), optimizer)

        return tf.while_loop(lambda k, _: k < number, step, (0, 0.0))[1] / number

    def _value_loss(self, batch: Any, rows: tf.Tensor) -> tf.Tensor:
        """Mean squared distance of values to returns."""
        return tf.reduce_mean(tf.square(self.value(tf.gather(batch.obs, rows)) - tf.gather(batch.return_, rows)))
