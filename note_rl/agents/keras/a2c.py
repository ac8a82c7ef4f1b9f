"""Advantage actor-critic in Keras (Mnih et al. 2016, https://arxiv.org/abs/1602.01783, without the asynchrony)."""

from collections.abc import Sequence
from types import MappingProxyType
from typing import ClassVar

import tensorflow as tf

from note_rl.agents.keras.actor_critic import ActorCritic
from note_rl.agents.keras.networks import MakeNetwork
from note_rl.environments import EnvLike


class A2C(ActorCritic):
    """One gradient step on each short rollout of many environments, for actions of all kinds.

    set() begins with one minibatch of the whole rollout, in one epoch: a second step on the same transitions would be
    off the policy that they come from, and nothing here corrects for that.

    Args:
        state_dim: Length of an observation; None: read from the environment, as action_dim.
        hidden_size: Width of the hidden layers, one number or one per layer; a single number means two layers.
        action_dim: Number of actions to choose one of.
        env: Environment, id, list or factory.
        network: Makes a network from (observation shape, number of outputs); None: a tanh `MLP` of `hidden_size`.
        critic_network: The same for the critic; None: as `network`.
        gamma: Discount of one step.
        gae_lambda: Weight of long against short returns in the advantage; 1: the returns of the paper.
        entropy_coef: Weight of the entropy bonus.
        value_coef: Weight of the value loss.
        normalise_advantage: Whether advantages get mean 0 and deviation 1 over the rollout.
        initial_log_std: Log deviation of continuous actions at the start; it is learned, the same for all states.
        frame_stack: Frames that are shown together; the same as in set().
        device: Where the networks live.
    """

    batch_attributes: ClassVar[tuple[str, ...]] = ("advantage", "return_")
    set_defaults = MappingProxyType({"PPO": True, "rollout_steps": 5, "batch": "rollout", "num_epochs": 1})

    def __init__(
        self,
        state_dim: int | None = None,
        hidden_size: int | Sequence[int] = (64, 64),
        action_dim: int | None = None,
        *,
        env: EnvLike = "CartPole-v1",
        network: MakeNetwork | None = None,
        critic_network: MakeNetwork | None = None,
        gamma: float = 0.99,
        gae_lambda: float = 1.0,
        entropy_coef: float = 0.01,
        value_coef: float = 0.5,
        normalise_advantage: bool = False,
        initial_log_std: float = 0.0,
        frame_stack: int = 1,
        device: str = "cpu",
    ) -> None:
        super().__init__(
            state_dim,
            hidden_size,
            action_dim,
            env=env,
            network=network,
            critic_network=critic_network,
            gamma=gamma,
            gae_lambda=gae_lambda,
            entropy_coef=entropy_coef,
            value_coef=value_coef,
            normalise_advantage=normalise_advantage,
            initial_log_std=initial_log_std,
            frame_stack=frame_stack,
            device=device,
        )

    def __call__(self, s: tf.Tensor, a: tf.Tensor, next_s: tf.Tensor, r: tf.Tensor, d: tf.Tensor) -> tf.Tensor:
        """Loss [B]: -log pi(a|s) * A, squared value error, minus the entropy bonus (section 4 and algorithm S3)."""
        log_prob, entropy, value = self.log_prob_entropy_and_value(s, a)
        value_error = tf.square(value - self.return_)
        self.report(entropy=entropy, value_loss=value_error)
        return -log_prob * self.advantage + self.value_coef * value_error - self.entropy_coef * entropy
